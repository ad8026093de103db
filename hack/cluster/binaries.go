package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// program is a binary that is built from a module.
type program struct {
	name   string // name of the binary
	pkg    string // import path of its main package
	module string // folder under hack/cluster whose go.mod pins it
}

// listPrograms lists every binary.
func listPrograms() []program {
	kubernetes := func(name string) program {
		return program{name: name, pkg: "k8s.io/kubernetes/cmd/" + name, module: newest}
	}
	return []program{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", module: newest},
		kubernetes("kube-apiserver"),
		kubernetes("kubectl"),
		kubernetes("kube-controller-manager"),
		kubernetes("kube-scheduler"),
		kubernetes("kubelet"),
		kubernetes("kube-proxy"),
		{name: "coredns", pkg: "github.com/csenv/csenv/hack/cluster/kubernetes/coredns", module: newest},
	}
}

// olderKubernetes lists the minors before the newest on which the envtest suites run. Each has a
// module folder kubernetes-MINOR.
func olderKubernetes() []string { return []string{"1.36", "1.35"} }

// listModules lists the folders under hack/cluster that pin programs.
func listModules() []string {
	all := olderKubernetes()
	for i := range all {
		all[i] = newest + "-" + all[i]
	}
	return append(all, newest)
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
	for _, module := range listModules() {
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
		return b.pinned[newest]["github.com/coredns/coredns"]
	}
	return b.pinned[p.module]["k8s.io/kubernetes"]
}

// folder returns the folder of a module's binaries. Its name contains every version, so that a new
// version is built and a fresh clone reuses existing binaries.
func (b builder) folder(module string) string {
	return filepath.Join(b.cache, "bin", "kubernetes-"+b.pinned[module]["k8s.io/kubernetes"]+"-etcd-"+
		b.pinned[newest]["go.etcd.io/etcd/server/v3"])
}

func (b builder) path(p program) string {
	if p.name == "coredns" {
		return filepath.Join(b.cache, "bin", "coredns-"+b.versionOf(p), p.name)
	}
	return filepath.Join(b.folder(p.module), p.name)
}

// find returns the path of a program by name, even if it isn't built yet.
func (b builder) find(name string) string {
	for _, p := range listPrograms() {
		if p.name == name {
			return b.path(p)
		}
	}
	panic("no program is called " + name)
}

// ensure builds the missing ones of the named programs, or of all programs if none is named.
func (b builder) ensure(ctx context.Context, names ...string) error {
	return b.ensureOf(ctx, newest, names...)
}

// ensureOf is ensure for a module that may have an older Kubernetes.
func (b builder) ensureOf(ctx context.Context, module string, names ...string) error {
	if len(b.missing(module, names)) == 0 {
		return nil
	}
	release, err := acquireLock(ctx, filepath.Join(b.cache, "build.lock"), b.progress)
	if err != nil {
		return err
	}
	defer release()
	wanted := b.missing(module, names)
	if len(wanted) == 0 {
		return nil
	}
	var list []string
	for _, p := range wanted {
		list = append(list, p.name+" "+b.versionOf(p))
	}
	what := "building " + strings.Join(list, ", ")
	logProgressf(b.progress, "%s", what)
	start := time.Now()
	if err := b.build(ctx, module, wanted); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	logProgressf(b.progress, "built after %s", time.Since(start).Round(time.Second))
	return nil
}

// missing lists the named programs of a module, or all if none is named, that aren't built.
func (b builder) missing(module string, names []string) (wanted []program) {
	for _, p := range listPrograms() {
		p.module = module
		if (len(names) == 0 || slices.Contains(names, p.name)) && !isRegularFile(b.path(p)) {
			wanted = append(wanted, p)
		}
	}
	return wanted
}

// build compiles programs of one module in one call, which compiles and links on every core.
// A killed build leaves no incomplete binary, because it compiles to a temporary folder.
func (b builder) build(ctx context.Context, module string, wanted []program) error {
	temp := filepath.Join(b.cache, "bin", "building")
	packages := make([]string, len(wanted))
	for i, p := range wanted {
		packages[i] = p.pkg
	}
	// The linker drops what debuggers read, so the compiler need not write it: that is a seventh of
	// its time. Other packages are compiled as csenv's are, which have some of them too.
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-gcflags=k8s.io/...=-dwarf=false",
		"-gcflags=go.etcd.io/...=-dwarf=false", "-ldflags", b.ldflags(module), "-o", temp + "/"}, packages...)
	defer func() { _ = os.RemoveAll(temp) }()
	if err := runGo(ctx, b.progress, filepath.Dir(b.pinFile(module)), args...); err != nil {
		return err
	}
	for _, p := range wanted {
		if err := os.MkdirAll(filepath.Dir(b.path(p)), 0o750); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(temp, outputName(p)), b.path(p)); err != nil {
			return err
		}
	}
	return nil
}

// outputName is the name that the go command gives a program.
func outputName(p program) string {
	if p.name == "etcd" {
		return "server"
	}
	return p.name
}

// ldflags strips symbols and sets the version. Without a version the API server reports v0.0.0, and
// clients complain. Programs without the variables ignore them.
func (b builder) ldflags(module string) string {
	version := b.pinned[module]["k8s.io/kubernetes"]
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const stamp = " -X k8s.io/component-base/version."
	return "-s -w" + stamp + "gitVersion=" + version + stamp + "gitMajor=" + major + stamp + "gitMinor=" + minor
}

func knownProgram(name string) bool {
	for _, p := range listPrograms() {
		if p.name == name {
			return true
		}
	}
	return false
}

func isRegularFile(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}
