// Command trainer makes the image of examples/learn for the local cluster, without Docker: Debian's
// Python, the packages of its requirements.txt and its scripts, as an OCI layout. Where there is
// Docker, examples/learn/Dockerfile makes an image that does the same.
//
//	go run ./hack/trainer
//	go run ./hack/cluster load --layout bin/trainer
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/csenv/csenv/hack/image"
)

const (
	imageName = "docker.io/library/csenv-learn:dev"
	example   = "examples/learn"
	folder    = "bin/trainer" // of the layout
	// sources are this machine's package sources, whose release the image has.
	sources = "/etc/apt/sources.list.d/debian.sources"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := buildTrainerImage(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func buildTrainerImage(ctx context.Context) error {
	work, err := os.MkdirTemp("", "csenv-trainer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	system, program, root := filepath.Join(work, "system.tar"), filepath.Join(work, "program.tar"),
		filepath.Join(work, "program")
	if err := installDebian(ctx, system); err != nil {
		return err
	}
	version, err := pythonOf(system)
	if err != nil {
		return err
	}
	logProgressf("installing the packages of %s/requirements.txt for Python %s (about 2 minutes)", example, version)
	if err := runCommand(ctx, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--target", filepath.Join(root, "packages"), "--only-binary=:all:", "--implementation", "cp",
		"--python-version", version, "-r", filepath.Join(example, "requirements.txt")); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(root, "learn"), os.DirFS(example)); err != nil {
		return err
	}
	if err := writeTar(program, root); err != nil {
		return err
	}
	logProgressf("writing %s to %s", imageName, folder)
	return writeImage(system, program)
}

func logProgressf(format string, args ...any) { fmt.Fprintf(os.Stderr, "==> "+format+"\n", args...) }

func runCommand(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, output)
	}
	return nil
}

// installDebian writes a file system with Debian's Python to a tar archive.
func installDebian(ctx context.Context, file string) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		logProgressf("installing mmdebstrap with apt-get")
		for _, args := range [][]string{{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends",
			"mmdebstrap"}} {
			if err := runCommand(ctx, "apt-get", args...); err != nil {
				return err
			}
		}
	}
	logProgressf("unpacking Debian's Python")
	// Without a release, mmdebstrap takes the sources' release.
	return runCommand(ctx, "mmdebstrap", "--variant=extract", "--include=python3,libstdc++6,ca-certificates", "",
		file, sources)
}

// pythonOf returns the version of the Python in an archive of a file system, for example "3.11".
func pythonOf(file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	for entries := tar.NewReader(in); ; {
		header, err := entries.Next()
		if err != nil {
			return "", fmt.Errorf("looking for Python in Debian's packages: %w", err)
		}
		if dir, name := path.Split(path.Clean(header.Name)); dir == "usr/bin/" && header.Typeflag == tar.TypeReg {
			if version, found := strings.CutPrefix(name, "python"); found {
				return version, nil
			}
		}
	}
}

// writeTar writes the files below a folder to a tar archive.
func writeTar(file, root string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	packed := tar.NewWriter(out)
	if err := packed.AddFS(os.DirFS(root)); err != nil {
		return fmt.Errorf("packing %s: %w", root, err)
	}
	return errors.Join(packed.Close(), out.Close())
}

// writeImage makes an image whose layers are archives, and writes its layout.
func writeImage(archives ...string) error {
	trainer := empty.Image
	for _, file := range archives {
		// The image goes to this machine only, so its layers aren't compressed.
		layer, err := tarball.LayerFromFile(file, tarball.WithCompressionLevel(gzip.NoCompression))
		if err != nil {
			return fmt.Errorf("reading a layer: %w", err)
		}
		if trainer, err = mutate.AppendLayers(trainer, layer); err != nil {
			return fmt.Errorf("adding a layer: %w", err)
		}
	}
	config, err := trainer.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	config.OS, config.Architecture = platform.OS, platform.Architecture
	config.Config = v1.Config{User: image.Nonroot, Entrypoint: []string{"python3", "/learn/learn.py"},
		Env: []string{"PATH=/usr/bin:/bin", "PYTHONPATH=/packages"}}
	if trainer, err = mutate.ConfigFile(trainer, config); err != nil {
		return err
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: trainer,
		Descriptor: v1.Descriptor{Platform: &platform}})
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return image.AppendToLayout(path, index, map[string]string{image.NameAnnotation: imageName})
}
