package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// program is a binary that is built from a module.
type program struct {
	name       string // name of the binary
	pkg        string // import path of its main package
	module     string // folder under hack/cluster whose go.mod pins it
	firstBuild string // duration of a first build on 2 cores, including the programs before it
}

// programs lists every binary in build order. The first four are first, because the envtest suites
// need only these.
func programs() []program {
	kubernetes := func(name, firstBuild string) program {
		return program{name: name, pkg: "k8s.io/kubernetes/cmd/" + name, module: newest, firstBuild: firstBuild}
	}
	return []program{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", module: newest, firstBuild: "1 minute"},
		kubernetes("kube-apiserver", "4 minutes"),
		kubernetes("kubectl", "30 seconds"),
		kubernetes("kube-controller-manager", "90 seconds"),
		kubernetes("kube-scheduler", "15 seconds"),
		kubernetes("kubelet", "30 seconds"),
		kubernetes("kube-proxy", "15 seconds"),
		{name: "coredns", pkg: "github.com/coredns/coredns", module: "coredns", firstBuild: "2 minutes"},
	}
}

// olderKubernetes lists the minors before the newest on which the envtest suites run. Each has a
// module folder kubernetes-MINOR.
func olderKubernetes() []string { return []string{"1.36", "1.35"} }

// modules lists the folders under hack/cluster that pin programs.
func modules() []string {
	all := olderKubernetes()
	for i := range all {
		all[i] = newest + "-" + all[i]
	}
	return append(all, newest, "coredns")
}

// newest is the module folder of the cluster's Kubernetes.
const newest = "kubernetes"

// pins are the module versions in a go.mod file.
type pins map[string]string

func readPins(gomod string) (pins, error) {
	data, err := os.ReadFile(gomod)
	if err != nil {
		return nil, fmt.Errorf("reading pinned versions: %w", err)
	}
	file, err := modfile.Parse(gomod, data, nil)
	if err != nil {
		return nil, fmt.Errorf("reading pinned versions: %w", err)
	}
	versions := pins{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions, nil
}

// builder builds pinned programs into the cache, once for each version.
type builder struct {
	folders
	progress io.Writer
	pinned   map[string]pins // by module folder
}

func newBuilder(progress io.Writer) (builder, error) {
	f, err := findFolders()
	if err != nil {
		return builder{}, err
	}
	b := builder{folders: f, progress: progress, pinned: map[string]pins{}}
	for _, module := range modules() {
		if b.pinned[module], err = readPins(b.pinFile(module)); err != nil {
			return builder{}, err
		}
	}
	return b, nil
}

func (b builder) pinFile(module string) string {
	return filepath.Join(b.repo, "hack", "cluster", module, "go.mod")
}

func (b builder) kubernetesVersion() string { return b.pinned[newest]["k8s.io/kubernetes"] }

func (b builder) versionOf(p program) string {
	switch p.name {
	case "etcd":
		return b.pinned[newest]["go.etcd.io/etcd/server/v3"]
	case "coredns":
		return b.pinned["coredns"]["github.com/coredns/coredns"]
	}
	return b.pinned[p.module]["k8s.io/kubernetes"]
}

// folder returns the folder of a module's binaries. Its name contains every version, so that a new
// version is built and a fresh clone reuses existing binaries.
func (b builder) folder(module string) string {
	name := "coredns-" + b.pinned["coredns"]["github.com/coredns/coredns"]
	if module != "coredns" {
		name = "kubernetes-" + b.pinned[module]["k8s.io/kubernetes"] + "-etcd-" +
			b.pinned[newest]["go.etcd.io/etcd/server/v3"]
	}
	return filepath.Join(b.cache, "bin", name)
}

func (b builder) path(p program) string { return filepath.Join(b.folder(p.module), p.name) }

// find returns the path of a program by name, even if it isn't built yet.
func (b builder) find(name string) string {
	for _, p := range programs() {
		if p.name == name {
			return b.path(p)
		}
	}
	panic("no program is called " + name)
}

// ensure builds the missing ones of the named programs, or of all programs if none is named.
func (b builder) ensure(ctx context.Context, names ...string) error {
	for _, p := range programs() {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		if err := b.ensureOne(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (b builder) ensureOne(ctx context.Context, p program) error {
	if built(b.path(p)) {
		return nil
	}
	release, err := lock(ctx, filepath.Join(b.cache, "build.lock"), b.progress)
	if err != nil {
		return err
	}
	defer release()
	if built(b.path(p)) {
		return nil
	}
	start := time.Now()
	sayf(b.progress, "building %s %s (a first build takes about %s on 2 cores)", p.name, b.versionOf(p), p.firstBuild)
	if err := b.build(ctx, p); err != nil {
		return fmt.Errorf("building %s: %w", p.name, err)
	}
	sayf(b.progress, "built %s in %s", p.name, time.Since(start).Round(time.Second))
	return nil
}

// build compiles to a temporary name in the same folder, so that a killed build leaves no
// incomplete binary.
func (b builder) build(ctx context.Context, p program) error {
	if err := os.MkdirAll(b.folder(p.module), 0o750); err != nil {
		return err
	}
	temp := b.path(p) + ".building"
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", b.ldflags(p), "-o", temp, p.pkg}
	dir := filepath.Dir(b.pinFile(p.module))
	if err := runGo(ctx, b.progress, dir, args...); err != nil {
		return err
	}
	return os.Rename(temp, b.path(p))
}

// ldflags strips symbols and sets the version. Without a version the API server reports v0.0.0, and
// clients complain.
func (b builder) ldflags(p program) string {
	flags := "-s -w"
	if !strings.HasPrefix(p.pkg, "k8s.io/kubernetes/") {
		return flags
	}
	version := b.versionOf(p)
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const stamp = " -X k8s.io/component-base/version."
	return flags + stamp + "gitVersion=" + version + stamp + "gitMajor=" + major + stamp + "gitMinor=" + minor
}

// runGo runs the go command in dir for a static build, and prints progress messages.
func runGo(ctx context.Context, progress io.Writer, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	stop := showLife(progress, path.Base(args[len(args)-1]))
	defer stop()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, lastLines(output.String(), 20))
	}
	return nil
}

// showLife prints a progress message every 20 seconds until stop is called.
func showLife(progress io.Writer, what string) (stop func()) {
	done, start := make(chan struct{}), time.Now()
	ticker := time.NewTicker(20 * time.Second)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				sayf(progress, "    still at %s after %s", what, time.Since(start).Round(time.Second))
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// envtestAssets returns the folder of the programs that the envtest suites need, of a minor of
// Kubernetes or, if it is empty, of the newest.
func (b builder) envtestAssets(ctx context.Context, minor string) (string, error) {
	shared := []string{"etcd", "kubectl"}
	versioned := []string{"kube-apiserver", "kube-controller-manager"}
	if minor == "" || strings.HasPrefix(b.kubernetesVersion(), "v"+minor+".") {
		return b.folder(newest), b.ensure(ctx, append(shared, versioned...)...)
	}
	if !slices.Contains(olderKubernetes(), minor) {
		return "", fmt.Errorf("no Kubernetes %q is pinned here: use %s, or nothing for %s", minor,
			strings.Join(olderKubernetes(), ", "), b.kubernetesVersion())
	}
	if err := b.ensure(ctx, shared...); err != nil {
		return "", err
	}
	for _, p := range programs() {
		if !slices.Contains(versioned, p.name) {
			continue
		}
		p.module = newest + "-" + minor
		if err := b.ensureOne(ctx, p); err != nil {
			return "", err
		}
	}
	folder := b.folder(newest + "-" + minor)
	for _, name := range shared {
		link := filepath.Join(folder, name)
		if built(link) {
			continue
		}
		_ = os.Remove(link) // it may lead to a folder that was deleted
		if err := os.Symlink(b.find(name), link); err != nil {
			return "", fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return folder, nil
}

// print prints the paths for the command binaries.
func (b builder) print(ctx context.Context, out io.Writer, names []string) error {
	for _, name := range names {
		if !knownProgram(name) {
			return fmt.Errorf("no binary is called %q: run binaries without names to list them", name)
		}
	}
	if err := b.ensure(ctx, names...); err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintln(out, b.find(name))
	}
	if len(names) > 0 {
		return nil
	}
	for _, p := range programs() {
		fmt.Fprintf(out, "%s\t%s\n", p.name, b.path(p))
	}
	return nil
}

func knownProgram(name string) bool {
	for _, p := range programs() {
		if p.name == name {
			return true
		}
	}
	return false
}

func built(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}
