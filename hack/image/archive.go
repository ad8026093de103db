package image

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// NameAnnotation is where containerd and others find the full name of an image in a layout.
const NameAnnotation = "io.containerd.image.name"

// FullName returns an image's name as containerd stores it: docker.io/library/csenv:dev for
// csenv:dev. The name of an image with tag and digest has only the digest.
func FullName(image string) (string, error) {
	reference, err := name.ParseReference(image)
	if err != nil {
		return "", fmt.Errorf("reading the image name: %w", err)
	}
	return strings.Replace(reference.Name(), name.DefaultRegistry, "docker.io", 1), nil
}

// AppendToLayout adds an image or an index to a layout under a full name.
func AppendToLayout(path layout.Path, content mutate.Appendable, annotations map[string]string) error {
	option := layout.WithAnnotations(annotations)
	switch content := content.(type) {
	case v1.ImageIndex:
		return path.AppendIndex(content, option)
	case v1.Image:
		return path.AppendImage(content, option)
	}
	return fmt.Errorf("a layout can't hold %T", content)
}

// WriteArchive writes an image or an index as a tarred OCI layout, under full names. Importing it
// keeps the digest.
func WriteArchive(w io.Writer, content mutate.Appendable, fullNames ...string) error {
	dir, err := os.MkdirTemp("", "csenv-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	for _, full := range fullNames {
		if err := AppendToLayout(path, content, map[string]string{NameAnnotation: full}); err != nil {
			return fmt.Errorf("writing the image: %w", err)
		}
	}
	packed := tar.NewWriter(w)
	if err := packed.AddFS(os.DirFS(dir)); err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return packed.Close()
}

// FindRelease finds the index of a release in the layout of folder dir, and the full names that
// manifests may use for it: its tag, and its digest.
func FindRelease(dir string) (index v1.ImageIndex, fullNames []string, err error) {
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the image layout %s: %w", dir, err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the image layout %s: %w", dir, err)
	}
	for _, entry := range manifest.Manifests {
		tagged := entry.Annotations[NameAnnotation]
		if tagged == "" || !entry.MediaType.IsIndex() {
			continue
		}
		reference, err := name.NewTag(tagged)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the image name of %s: %w", dir, err)
		}
		index, err := all.ImageIndex(entry.Digest)
		return index, []string{tagged, reference.Digest(entry.Digest.String()).Name()}, err
	}
	return nil, nil, fmt.Errorf("the layout %s has no index with the annotation %s: name the folder image of a release",
		dir, NameAnnotation)
}
