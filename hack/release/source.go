package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/csenv/csenv/hack/shipped"
)

// export copies the commit's files, so that nothing else of the checkout reaches the release.
func (r *release) export(ctx context.Context) error {
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("a release is built from a commit, but the checkout has changes: commit or remove them:\n%s",
			changes)
	}
	if r.commit, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	tagged, err := r.git(ctx, "rev-parse", "--quiet", "--verify", "refs/tags/"+r.version+"^{commit}")
	if err == nil && tagged != r.commit {
		return fmt.Errorf("the tag %s is commit %s: check it out first (git checkout %[1]s)", r.version, tagged)
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	created, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of the commit (or SOURCE_DATE_EPOCH) is no number of seconds: %w", err)
	}
	r.created = time.Unix(created, 0).UTC()
	r.source = filepath.Join(r.temp, "source")
	if err := os.Mkdir(r.source, 0o750); err != nil {
		return err
	}
	packed := filepath.Join(r.temp, "source.tar")
	if _, err := r.git(ctx, "archive", "--format=tar", "-o", packed, r.commit); err != nil {
		return err
	}
	if _, err := runProgram(ctx, r.temp, nil, "tar", "-xf", packed, "-C", r.source); err != nil {
		return err
	}
	r.tools, err = findToolchain(ctx, r.repo)
	return err
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	return runProgram(ctx, r.repo, nil, "git", args...)
}

// runProgram runs a program and returns its output without the last newline. With a nil environment
// it gets this process's.
func runProgram(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var output, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return strings.TrimSpace(output.String()), nil
}

// toolchain is the go command with everything that changes what it builds set to one value.
type toolchain struct {
	version string
	env     []string
}

// findToolchain keeps only those settings of the go command that say where modules come from and
// where its caches are.
func findToolchain(ctx context.Context, dir string) (toolchain, error) {
	kept := []string{"GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOMODCACHE", "GOCACHE"}
	output, err := runProgram(ctx, dir, nil, "go", append([]string{"env", "-json", "GOVERSION"}, kept...)...)
	if err != nil {
		return toolchain{}, err
	}
	settings := map[string]string{}
	if err := json.Unmarshal([]byte(output), &settings); err != nil {
		return toolchain{}, fmt.Errorf("reading the settings of the go command: %w", err)
	}
	t := toolchain{version: settings["GOVERSION"]}
	delete(settings, "GOVERSION")
	maps.Copy(settings, map[string]string{"GOENV": "off", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local",
		"CGO_ENABLED": "0", "GOAMD64": "v1", "GOARM64": "v8.0", "GOEXPERIMENT": "", "GOFIPS140": "off", "GODEBUG": ""})
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "GO") && name != "CGO_ENABLED" {
			t.env = append(t.env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		t.env = append(t.env, name+"="+settings[name])
	}
	return t, nil
}

func (t toolchain) run(ctx context.Context, dir string, p v1.Platform, args ...string) error {
	_, err := runProgram(ctx, dir, append(slices.Clone(t.env), "GOOS="+p.OS, "GOARCH="+p.Architecture), "go", args...)
	return err
}

func (r *release) buildProgram(ctx context.Context, p v1.Platform, tags, file string) error {
	return r.tools.run(ctx, r.source, p, shipped.BuildArgs(r.version, tags, file, shipped.CommandLine)...)
}

// commandLine is the file of a platform's command line, and imageProgram the image's program.
func (r *release) commandLine(p v1.Platform) string  { return r.program(p, "csenv") }
func (r *release) imageProgram(p v1.Platform) string { return r.program(p, "image") }

func (r *release) program(p v1.Platform, name string) string {
	return filepath.Join(r.temp, "programs", p.OS+"_"+p.Architecture, name)
}

// docs is the folder of man pages and completions.
func (r *release) docs() string { return filepath.Join(r.temp, "docs") }
