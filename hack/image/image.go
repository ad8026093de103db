// Package image makes container images that contain only files, without Docker and without a base
// image. The local cluster and the release use it.
//
// The same files and options give the same digest: layers have no owner and no times but the one
// that the options name.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Nonroot is the user and group that every image runs as.
const Nonroot = "65532:65532"

// File is a file of an image, or a symbolic link.
type File struct {
	Path    string // without a leading slash
	Content []byte
	Mode    int64
	Link    string // target of a symbolic link, which has neither content nor mode
}

// Options are what an image has besides files.
type Options struct {
	Entrypoint string
	Platform   v1.Platform
	Labels     map[string]string
	Created    time.Time // zero: the image names no time
	// Compress makes layers smaller. Their digests then depend on the compressor of the Go release.
	Compress bool
}

// Make creates an image of files: a layer for each file, and one for all links.
func Make(files []File, o Options) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, group := range layersOf(files) {
		layer, err := o.layer(group)
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", group[0].Path, err)
		}
		addendum := mutate.Addendum{Layer: layer}
		if !o.Created.IsZero() {
			addendum.History = v1.History{Created: v1.Time{Time: o.Created}, CreatedBy: "ADD /" + group[0].Path}
		}
		if image, err = mutate.Append(image, addendum); err != nil {
			return nil, fmt.Errorf("adding %s: %w", group[0].Path, err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = o.Platform.OS, o.Platform.Architecture, o.Platform.Variant
	config.Created = v1.Time{Time: o.Created}
	config.Config.Entrypoint, config.Config.User = []string{o.Entrypoint}, Nonroot
	config.Config.Labels = o.Labels
	return mutate.ConfigFile(image, config)
}

// layersOf distributes files to layers, in the order of their paths.
func layersOf(files []File) [][]File {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var layers [][]File
	var links []File
	for _, file := range files {
		if file.Link != "" {
			links = append(links, file)
			continue
		}
		layers = append(layers, []File{file})
	}
	if links != nil {
		layers = append(layers, links)
	}
	return layers
}

func (o Options) layer(files []File) (v1.Layer, error) {
	content, err := packTar(files, o.Created)
	if err != nil {
		return nil, err
	}
	if !o.Compress {
		return static.NewLayer(content, types.OCIUncompressedLayer), nil
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching)
}

// packTar packs files and the folders above them.
func packTar(files []File, created time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	written := map[string]bool{}
	for _, file := range files {
		for dir := range parentFolders(file.Path) {
			if written[dir] {
				continue
			}
			written[dir] = true
			header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: created}
			if err := w.WriteHeader(header); err != nil {
				return nil, err
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Path, Mode: file.Mode, Size: int64(len(file.Content)),
			ModTime: created}
		if file.Link != "" {
			header = &tar.Header{Typeflag: tar.TypeSymlink, Name: file.Path, Linkname: file.Link, Mode: 0o777,
				ModTime: created}
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.Content); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end of the archive
	return buffer.Bytes(), err
}

// parentFolders yields the folders above path, outermost first.
func parentFolders(path string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i, c := range path {
			if c == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}

// MakeIndex makes one index of the images of several platforms.
func MakeIndex(images []v1.Image, annotations map[string]string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	annotated, ok := mutate.Annotations(index, annotations).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotating %T gave no index", index)
	}
	return annotated, nil
}
