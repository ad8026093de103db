package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/csenv/csenv/hack/shipped"
)

// pauseImage is the image of pod sandboxes. Its registry doesn't exist: the image is always loaded.
const pauseImage = "csenv.local/pause:1"

const (
	hostCertificates  = "/etc/ssl/certs/ca-certificates.crt"
	imageCertificates = "etc/ssl/certs/ca-certificates.crt"
	nonroot           = "65532:65532" // user and group that every image runs as
)

// imageFile is a file of an image, in its own layer.
type imageFile struct {
	path    string // without a leading slash
	content []byte
	mode    int64
	link    string // target of a symbolic link, which has no content
}

// makeImage creates an image that contains only files. The same files give the same digest: there
// are no times, and layers are not compressed, because compressors differ between versions.
func makeImage(files []imageFile, entrypoint string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	files = slices.SortedFunc(slices.Values(files), func(a, b imageFile) int { return strings.Compare(a.path, b.path) })
	for _, file := range files {
		content, err := layerOf(file)
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", file.path, err)
		}
		if image, err = mutate.AppendLayers(image, static.NewLayer(content, types.OCIUncompressedLayer)); err != nil {
			return nil, fmt.Errorf("adding %s: %w", file.path, err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint, config.Config.User = []string{entrypoint}, nonroot
	return mutate.ConfigFile(image, config)
}

func layerOf(file imageFile) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for dir := range parents(file.path) {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755,
			ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: file.path, Mode: file.mode, Size: int64(len(file.content)),
		ModTime: time.Unix(0, 0)}
	if file.link != "" {
		header = &tar.Header{Typeflag: tar.TypeSymlink, Name: file.path, Linkname: file.link, Mode: 0o777,
			ModTime: time.Unix(0, 0)}
	}
	if err := archive.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := archive.Write(file.content); err != nil {
		return nil, err
	}
	err := archive.Close() // writes the end of the archive
	return buffer.Bytes(), err
}

// parents yields the folders above path, outermost first.
func parents(path string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i, c := range path {
			if c == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}

// fullName returns an image's name as containerd stores it: docker.io/library/csenv:dev for
// csenv:dev.
func fullName(image string) (string, error) {
	reference, err := name.ParseReference(image)
	if err != nil {
		return "", fmt.Errorf("reading the image name: %w", err)
	}
	return strings.Replace(reference.Name(), name.DefaultRegistry, "docker.io", 1), nil
}

// writeArchive writes image as a tarred OCI layout. Importing it keeps the digest.
func writeArchive(w io.Writer, image v1.Image, fullName string) error {
	dir, err := os.MkdirTemp("", "csenv-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	names := layout.WithAnnotations(map[string]string{"io.containerd.image.name": fullName})
	if err := path.AppendImage(image, names); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	archive := tar.NewWriter(w)
	if err := archive.AddFS(os.DirFS(dir)); err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return archive.Close()
}

// csenvImage builds the program for the node and puts it into an image.
func csenvImage(ctx context.Context, repo string, progress io.Writer) (v1.Image, error) {
	files, err := buildProgram(ctx, repo, progress, shipped.Image, shipped.ImageTags)
	if err != nil {
		return nil, err
	}
	for _, name := range shipped.Links() {
		files = append(files, imageFile{path: name, link: files[0].path})
	}
	certificates, err := os.ReadFile(hostCertificates)
	switch {
	case err == nil:
		files = append(files, imageFile{path: imageCertificates, content: certificates, mode: 0o644})
	case os.IsNotExist(err):
		sayf(progress, "this machine has no %s: the image will trust no public server", hostCertificates)
	default:
		return nil, fmt.Errorf("reading CA certificates: %w", err)
	}
	return makeImage(files, defaultProgram)
}

// defaultProgram runs in containers without a command, as in the Dockerfile.
const defaultProgram = "/envserver"

// buildProgram compiles a package into a file for an image's root.
func buildProgram(ctx context.Context, repo string, progress io.Writer, pkg, tags string) ([]imageFile, error) {
	dir, err := os.MkdirTemp("", "csenv-programs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	sayf(progress, "building %s", pkg)
	if err := runGo(ctx, progress, repo, "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags",
		"-s -w -X main.version="+revision(ctx, repo), "-o", dir+"/", pkg); err != nil {
		return nil, fmt.Errorf("building the image's program: %w", err)
	}
	program := filepath.Base(pkg)
	content, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		return nil, fmt.Errorf("reading a built program: %w", err)
	}
	return []imageFile{{path: program, content: content, mode: 0o755}}, nil
}

// revision returns git's description of the checkout, or "dev" if git fails.
func revision(ctx context.Context, repo string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", repo, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "dev"
	}
	return strings.TrimSpace(string(out))
}
