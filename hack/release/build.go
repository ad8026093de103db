package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/semver"

	"github.com/csenv/csenv/hack/shipped"
)

// release is one build.
type release struct {
	repo       string // checkout
	version    string
	repository string // name of the image without a tag
	platforms  []v1.Platform
	builder    string
	key        *ecdsa.PrivateKey // nil: nothing is signed
	progress   io.Writer

	temp    string // removed at the end
	source  string // the commit's files
	stage   string // becomes the release's folder
	commit  string
	created time.Time // of the commit
	tools   toolchain
	image   string // full reference, with tag and digest
}

// parsePlatforms reads a list such as linux/amd64,darwin/arm64.
func parsePlatforms(list string) ([]v1.Platform, error) {
	var platforms []v1.Platform
	for text := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(text, "/")
		if !ok || (system != "linux" && system != "darwin") || (arch != "amd64" && arch != "arm64") {
			return nil, fmt.Errorf("platform %q: it must be linux or darwin, a slash, and amd64 or arm64", text)
		}
		platform := v1.Platform{OS: system, Architecture: arch}
		if slices.ContainsFunc(platforms, platform.Equals) {
			return nil, fmt.Errorf("platform %s is named twice", text)
		}
		platforms = append(platforms, platform)
	}
	return platforms, nil
}

// imagePlatforms are the image's platforms.
func imagePlatforms(platforms []v1.Platform) []v1.Platform {
	return slices.DeleteFunc(slices.Clone(platforms), func(p v1.Platform) bool { return p.OS != "linux" })
}

func (r *release) check() error {
	if r.version == "" {
		return errors.New("no version: set VERSION, for example VERSION=v1.2.3")
	}
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return fmt.Errorf("version %q: it must be a semantic version with a v, such as v1.2.3 or v1.2.3-rc.1",
			r.version)
	}
	if len(imagePlatforms(r.platforms)) == 0 {
		return errors.New("the image needs a platform of Linux: add linux/amd64 or linux/arm64 to PLATFORMS")
	}
	return nil
}

// build makes the release in a temporary folder and moves it to out at the end, so that out never
// holds half a release.
func (r *release) build(ctx context.Context, out string) error {
	if err := r.check(); err != nil {
		return err
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if r.temp, err = os.MkdirTemp("", "csenv-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.temp)
	// The stage is beside out, because a folder can't be renamed into another file system.
	if r.stage, err = os.MkdirTemp(filepath.Dir(out), ".release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.stage)
	if err := os.Chmod(r.stage, 0o755); err != nil { //nolint:gosec // a release is public
		return err
	}
	begin := time.Now()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"exporting the commit", r.export},
		{"building programs for " + platformNames(r.platforms), r.buildPrograms},
		{"writing man pages and completions", r.buildDocs},
		{"packing archives", r.packArchives},
		{"making the image for " + platformNames(imagePlatforms(r.platforms)), r.packImage},
		{"rendering install.yaml", r.renderManifests},
		{"packing the chart", r.packChart},
		{"packing the Python packages", r.packPython},
		{"writing SBOMs", r.writeSBOMs},
		{"writing provenance and checksums", r.attest},
	} {
		r.sayf("[%4.0fs] %s", time.Since(begin).Seconds(), step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	if err := replaceRelease(out, r.stage); err != nil {
		return err
	}
	r.sayf("[%4.0fs] %s is in %s: %s", time.Since(begin).Seconds(), r.version, out, r.image)
	if r.key == nil {
		r.sayf("NOT SIGNED: set COSIGN_KEY to a private key (docs/verify.md says how to make one)")
	}
	return nil
}

// buildPrograms builds the command line for each platform, and the image's program for each
// platform of Linux.
func (r *release) buildPrograms(ctx context.Context) error {
	for _, p := range r.platforms {
		begin := time.Now()
		if err := r.buildProgram(ctx, p, shipped.Tags, r.commandLine(p)); err != nil {
			return err
		}
		if p.OS == "linux" {
			if err := r.buildProgram(ctx, p, shipped.ImageTags, r.imageProgram(p)); err != nil {
				return err
			}
		}
		r.sayf("        %s after %s", p, time.Since(begin).Round(time.Second))
	}
	return nil
}

// buildDocs has the command line describe itself. The tag adds the command for that, which needs
// libraries that the program otherwise doesn't.
func (r *release) buildDocs(ctx context.Context) error {
	here := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	program := filepath.Join(r.temp, "csenv-docs")
	if err := r.tools.run(ctx, r.source, here, "build", "-trimpath", "-buildvcs=false", "-tags", shipped.Tags+",docs",
		"-ldflags", "-X main.version="+r.version, "-o", program, shipped.CommandLine); err != nil {
		return err
	}
	env := append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.created.Unix(), 10))
	_, err := runProgram(ctx, r.temp, env, program, "docs", r.docs())
	return err
}

// packPython packs the wheels and the source distributions of the Python packages. A wheel is a zip
// archive, so this needs no Python.
func (r *release) packPython(context.Context) error {
	for _, folder := range pythonPackages {
		if err := r.packPythonPackage(filepath.Join(r.source, filepath.FromSlash(folder))); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// writeSBOMs describes each archive, and the image of each platform.
func (r *release) writeSBOMs(context.Context) error {
	for _, p := range r.platforms {
		if err := r.writeSBOM(artefactName("csenv", r.version, p), r.commandLine(p)); err != nil {
			return err
		}
		if p.OS != "linux" {
			continue
		}
		if err := r.writeSBOM(artefactName("csenv-image", r.version, p), r.imageProgram(p)); err != nil {
			return err
		}
	}
	return nil
}

// replaceRelease moves the folder from to its final name, in place of an earlier release. It
// refuses to replace a folder that is none.
func replaceRelease(to, from string) error {
	if _, err := os.Stat(to); err == nil {
		if _, err := os.Stat(filepath.Join(to, checksumsFile)); err != nil {
			return fmt.Errorf("%s exists and is no release: remove it, or choose another folder", to)
		}
		if err := os.RemoveAll(to); err != nil {
			return fmt.Errorf("removing the earlier release: %w", err)
		}
	}
	return os.Rename(from, to)
}

func (r *release) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.progress, "==> "+format+"\n", args...)
}

func platformNames(platforms []v1.Platform) string {
	names := make([]string, len(platforms))
	for i, p := range platforms {
		names[i] = p.String()
	}
	return strings.Join(names, ", ")
}

// artefactName begins the names of a platform's files: csenv_v1.2.3_linux_amd64.
func artefactName(name, version string, p v1.Platform) string {
	return fmt.Sprintf("%s_%s_%s_%s", name, version, p.OS, p.Architecture)
}

func (r *release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.stage, name), content, 0o644) //nolint:gosec // a release is public
}
