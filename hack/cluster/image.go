package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/csenv/csenv/hack/image"
)

// pauseImage is the image of pod sandboxes. Its registry doesn't exist: the image is always loaded.
const pauseImage = "csenv.local/pause:1"

// csenvImage builds the programs below cmd for the node and puts them into one image.
func csenvImage(ctx context.Context, repo string, progress io.Writer) (v1.Image, error) {
	packages, err := image.Packages(repo)
	if err != nil {
		return nil, err
	}
	files, err := buildPrograms(ctx, repo, progress, packages)
	if err != nil {
		return nil, err
	}
	certificates, err := image.CertificatesFile()
	if err != nil {
		return nil, err
	}
	return imageOf(append(files, certificates), image.Entrypoint)
}

// imageOf makes an image for this machine. Its layers aren't compressed, because it goes nowhere else.
func imageOf(files []image.File, entrypoint string) (v1.Image, error) {
	return image.Make(files, image.Options{Entrypoint: entrypoint,
		Platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH}})
}

// buildPrograms compiles packages into files for an image's root.
func buildPrograms(ctx context.Context, repo string, progress io.Writer, packages []string) ([]image.File, error) {
	dir, err := os.MkdirTemp("", "csenv-programs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	sayf(progress, "building %s", strings.Join(packages, " "))
	if err := runGo(ctx, progress, repo, image.BuildArgs(revision(ctx, repo), dir, packages...)...); err != nil {
		return nil, fmt.Errorf("building the image's programs: %w", err)
	}
	return image.Files(dir, packages)
}

// revision returns git's description of the checkout, or "dev" if git fails.
func revision(ctx context.Context, repo string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", repo, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "dev"
	}
	return strings.TrimSpace(string(out))
}
