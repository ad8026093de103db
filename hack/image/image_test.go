package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"pgregory.net/rapid"
)

func sampleFiles() []File {
	return []File{
		{Path: "manager", Content: []byte("manager program"), Mode: 0o755},
		{Path: Certificates, Content: []byte("certificates"), Mode: 0o644},
	}
}

func sampleOptions() Options {
	return Options{Entrypoint: "/manager", Platform: v1.Platform{OS: "linux", Architecture: "arm64"}}
}

func mustImage(t *testing.T, files []File) v1.Image {
	t.Helper()
	image, err := Make(files, sampleOptions())
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t interface {
	Helper()
	Fatal(...any)
}, image v1.Image) string {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestImageIsValidAndConfigured(t *testing.T) {
	image := mustImage(t, sampleFiles())
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	// Layers are not compressed, so both digests are equal.
	for i, layer := range manifest.Layers {
		if layer.Digest != config.RootFS.DiffIDs[i] || layer.MediaType != types.OCIUncompressedLayer {
			t.Errorf("layer %d is %s of type %s, unpacked %s", i, layer.Digest, layer.MediaType,
				config.RootFS.DiffIDs[i])
		}
	}
	if diff := cmp.Diff(v1.Config{Entrypoint: []string{"/manager"}, User: Nonroot}, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || !config.Created.IsZero() {
		t.Errorf("platform %s/%s, created %s", config.OS, config.Architecture, config.Created)
	}
}

// The digest depends only on the files, not on their order or the time.
func TestImageIsReproducible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) File {
			return File{
				Path:    rapid.StringMatching(`[a-z]{1,8}(/[a-z]{1,8}){0,2}`).Draw(t, "path"),
				Content: rapid.SliceOf(rapid.Byte()).Draw(t, "content"),
				Mode:    0o755,
			}
		}), 1, 5, func(f File) string { return f.Path }).Draw(t, "files")
		options := sampleOptions()
		options.Compress = rapid.Bool().Draw(t, "compress")
		first, err := Make(files, options)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Make(rapid.Permutation(files).Draw(t, "order"), options)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := digestOf(t, first), digestOf(t, second); a != b {
			t.Fatalf("%s and %s", a, b)
		}
	})
}

func TestImageDigestFollowsContent(t *testing.T) {
	base := digestOf(t, mustImage(t, sampleFiles()))
	for name, change := range map[string]func(*File){
		"content": func(f *File) { f.Content = []byte("other") },
		"path":    func(f *File) { f.Path = "other" },
		"mode":    func(f *File) { f.Mode = 0o644 },
	} {
		files := sampleFiles()
		change(&files[0])
		if digestOf(t, mustImage(t, files)) == base {
			t.Errorf("the digest does not follow the %s", name)
		}
	}
}

// entries returns the headers of an archive.
func entries(t *testing.T, content []byte) (headers []*tar.Header) {
	t.Helper()
	for reader := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, header)
	}
}

func TestLayerHoldsTheFileAndItsFolders(t *testing.T) {
	content, err := packTar(sampleFiles()[1:], time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, header := range entries(t, content) {
		if header.ModTime.Unix() != 0 || header.Uid != 0 {
			t.Errorf("%s: time %s, owner %d", header.Name, header.ModTime, header.Uid)
		}
		names = append(names, header.Name)
	}
	want := []string{"etc/", "etc/ssl/", "etc/ssl/certs/", Certificates}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestFullName(t *testing.T) {
	tests := map[string]string{
		"csenv:dev":                            "docker.io/library/csenv:dev",
		"csenv":                                "docker.io/library/csenv:latest",
		"someone/csenv:v1":                     "docker.io/someone/csenv:v1",
		"csenv.local/pause:1":                  "csenv.local/pause:1",
		"registry.example:5000/a/b:v2":         "registry.example:5000/a/b:v2",
		"ghcr.io/csenv/csenv:v1@" + someDigest: "ghcr.io/csenv/csenv@" + someDigest,
	}
	for image, want := range tests {
		got, err := FullName(image)
		if err != nil || got != want {
			t.Errorf("FullName(%s) = %s, %v; want %s", image, got, err, want)
		}
	}
	if _, err := FullName("Not A Name"); err == nil {
		t.Error("no error for an invalid name")
	}
}

func TestArchiveKeepsDigestAndName(t *testing.T) {
	image := mustImage(t, sampleFiles())
	var archive bytes.Buffer
	if err := WriteArchive(&archive, image, "docker.io/library/csenv:dev"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, &archive, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d images in the archive", len(manifest.Manifests))
	}
	entry := manifest.Manifests[0]
	if entry.Digest.String() != digestOf(t, image) ||
		entry.Annotations["io.containerd.image.name"] != "docker.io/library/csenv:dev" {
		t.Errorf("archive holds %s as %v", entry.Digest, entry.Annotations)
	}
}

func unpack(t *testing.T, archive io.Reader, dir string) {
	t.Helper()
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, header.Name), content)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A program with several names is one file and links to it, all in one layer.
func TestLinksAreInOneLayer(t *testing.T) {
	files := append(sampleFiles(), File{Path: "runner", Link: "manager"}, File{Path: "bin/x", Link: "../manager"})
	layers := layersOf(files)
	if len(layers) != 3 || len(layers[2]) != 2 {
		t.Fatalf("layers %v", layers)
	}
	content, err := packTar(layers[2], time.Unix(7, 0))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, header := range entries(t, content) {
		if header.ModTime.Unix() != 7 {
			t.Errorf("%s has the time %s", header.Name, header.ModTime)
		}
		got[header.Name] = string(header.Typeflag) + header.Linkname
	}
	want := map[string]string{"bin/": "5", "bin/x": "2../manager", "runner": "2manager"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestCompressedImageIsValid(t *testing.T) {
	options := sampleOptions()
	options.Compress, options.Created = true, time.Unix(1700000000, 0).UTC()
	made, err := Make(sampleFiles(), options)
	if err != nil {
		t.Fatal(err)
	}
	index, err := MakeIndex([]v1.Image{made}, map[string]string{"org.opencontainers.image.version": "v1"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	read, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(read); err != nil {
		t.Error(err)
	}
	manifest, err := read.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if p := manifest.Manifests[0].Platform; p.String() != "linux/arm64" || manifest.Annotations == nil {
		t.Errorf("platform %s, annotations %v", p, manifest.Annotations)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !config.Created.Equal(options.Created) || len(config.History) != 2 {
		t.Errorf("created %s, history %v", config.Created, config.History)
	}
}

// The names under which a release's manifests ask for its image lead to its index.
func TestReleasedImageIsFoundByItsNames(t *testing.T) {
	index, err := MakeIndex([]v1.Image{mustImage(t, sampleFiles())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := FindRelease(dir); err == nil || !strings.Contains(err.Error(), NameAnnotation) {
		t.Errorf("an empty layout: %v", err)
	}
	if err := AppendToLayout(path, index, map[string]string{NameAnnotation: "ghcr.io/csenv/csenv:v1"}); err != nil {
		t.Fatal(err)
	}
	found, names, err := FindRelease(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := found.Digest(); got != digest {
		t.Errorf("found %s, want %s", got, digest)
	}
	want := []string{"ghcr.io/csenv/csenv:v1", "ghcr.io/csenv/csenv@" + digest.String()}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestCertificatesAreThoseOfTheModule(t *testing.T) {
	file, err := CertificatesFile()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(file.Content) || bytes.Count(file.Content, []byte("BEGIN CERTIFICATE")) < 100 {
		t.Errorf("%d bytes with few certificates", len(file.Content))
	}
}
