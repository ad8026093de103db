package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/csenv/csenv/hack/image"
	"github.com/csenv/csenv/hack/shipped"
)

// pauseImage is the image of pod sandboxes. Its registry doesn't exist: the image is always loaded.
const pauseImage = "csenv.local/pause:1"

// csenvImage puts the program for the node into an image: the program that CSENV_PROGRAM names, or
// one that it builds.
func csenvImage(ctx context.Context, repo string, progress io.Writer) (v1.Image, error) {
	program, err := givenProgram(repo, progress)
	if program == nil && err == nil {
		program, err = buildProgram(ctx, repo, progress, shipped.CommandLine, shipped.ImageTags)
	}
	if err != nil {
		return nil, err
	}
	files, err := shipped.ListFiles(program)
	if err != nil {
		return nil, err
	}
	return imageOf(files, shipped.Entrypoint)
}

// givenProgram returns the program that CSENV_PROGRAM names, from the root of the repository, or
// nil if it isn't one of the image.
func givenProgram(repo string, progress io.Writer) ([]byte, error) {
	path := os.Getenv("CSENV_PROGRAM")
	if path == "" {
		return nil, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(repo, path)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading CSENV_PROGRAM: %w", err)
	}
	for _, wanted := range []debug.BuildSetting{{Key: "-tags", Value: shipped.ImageTags}, {Key: "GOOS", Value: "linux"},
		{Key: "GOARCH", Value: runtime.GOARCH}, {Key: "CGO_ENABLED", Value: "0"}} {
		if !slices.Contains(info.Settings, wanted) {
			logProgressf(progress, "%s is not built with %s=%s: the image gets another program", path, wanted.Key,
				wanted.Value)
			return nil, nil
		}
	}
	return os.ReadFile(path) //nolint:gosec // the user's choice
}

// imageOf makes an image for this machine. Its layers aren't compressed, because it goes nowhere
// else.
func imageOf(files []image.File, entrypoint string) (v1.Image, error) {
	return image.Make(files, image.Options{Entrypoint: entrypoint,
		Platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH}})
}

// buildProgram compiles a package of the module in a folder for this machine and returns the
// program.
func buildProgram(ctx context.Context, folder string, progress io.Writer, pkg, tags string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "csenv-programs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	logProgressf(progress, "building %s", pkg)
	file := filepath.Join(dir, "program")
	args := shipped.BuildArgs(describeRevision(ctx, folder), tags, file, pkg)
	if err := runGo(ctx, progress, folder, args...); err != nil {
		return nil, fmt.Errorf("building the image's program: %w", err)
	}
	return os.ReadFile(file)
}

// describeRevision returns git's description of the checkout, or "dev" if git fails.
func describeRevision(ctx context.Context, repo string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", repo, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "dev"
	}
	return strings.TrimSpace(string(out))
}
