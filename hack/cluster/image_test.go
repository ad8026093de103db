package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"pgregory.net/rapid"
)

func sampleFiles() []imageFile {
	return []imageFile{
		{path: "manager", content: []byte("manager program"), mode: 0o755},
		{path: imageCertificates, content: []byte("certificates"), mode: 0o644},
	}
}

func mustImage(t *testing.T, files []imageFile) v1.Image {
	t.Helper()
	image, err := makeImage(files, "/manager")
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
	if diff := cmp.Diff(v1.Config{Entrypoint: []string{"/manager"}, User: nonroot}, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if config.OS != "linux" || config.Architecture == "" || !config.Created.IsZero() {
		t.Errorf("platform %s/%s, created %s", config.OS, config.Architecture, config.Created)
	}
}

// The digest depends only on the files, not on their order or the time.
func TestImageIsReproducible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) imageFile {
			return imageFile{
				path:    rapid.StringMatching(`[a-z]{1,8}(/[a-z]{1,8}){0,2}`).Draw(t, "path"),
				content: rapid.SliceOf(rapid.Byte()).Draw(t, "content"),
				mode:    0o755,
			}
		}), 1, 5, func(f imageFile) string { return f.path }).Draw(t, "files")
		first, err := makeImage(files, "/manager")
		if err != nil {
			t.Fatal(err)
		}
		second, err := makeImage(rapid.Permutation(files).Draw(t, "order"), "/manager")
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
	for name, change := range map[string]func(*imageFile){
		"content": func(f *imageFile) { f.content = []byte("other") },
		"path":    func(f *imageFile) { f.path = "other" },
		"mode":    func(f *imageFile) { f.mode = 0o644 },
	} {
		files := sampleFiles()
		change(&files[0])
		if digestOf(t, mustImage(t, files)) == base {
			t.Errorf("the digest does not follow the %s", name)
		}
	}
}

func TestLayerHoldsTheFileAndItsFolders(t *testing.T) {
	content, err := layerOf(sampleFiles()[1])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	archive := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 || header.Uid != 0 {
			t.Errorf("%s: time %s, owner %d", header.Name, header.ModTime, header.Uid)
		}
		names = append(names, header.Name)
	}
	want := []string{"etc/", "etc/ssl/", "etc/ssl/certs/", imageCertificates}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestFullName(t *testing.T) {
	tests := map[string]string{
		"csenv:dev":                    "docker.io/library/csenv:dev",
		"csenv":                        "docker.io/library/csenv:latest",
		"someone/csenv:v1":             "docker.io/someone/csenv:v1",
		pauseImage:                     pauseImage,
		"registry.example:5000/a/b:v2": "registry.example:5000/a/b:v2",
	}
	for image, want := range tests {
		got, err := fullName(image)
		if err != nil || got != want {
			t.Errorf("fullName(%s) = %s, %v; want %s", image, got, err, want)
		}
	}
	if _, err := fullName("Not A Name"); err == nil {
		t.Error("no error for an invalid name")
	}
}

func TestArchiveKeepsDigestAndName(t *testing.T) {
	image := mustImage(t, sampleFiles())
	var archive bytes.Buffer
	if err := writeArchive(&archive, image, "docker.io/library/csenv:dev"); err != nil {
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
		if err := writeFile(filepath.Join(dir, header.Name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBuiltProgramIsStatic(t *testing.T) {
	repo, err := repoRoot()
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	files, err := buildProgram(t.Context(), repo, io.Discard, "./hack/cluster/pause", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || files[0].path != "pause" || files[0].mode != 0o755 {
		t.Fatalf("%d files, first %s mode %o", len(files), files[0].path, files[0].mode)
	}
	// A dynamic program contains the name of its loader, which the image doesn't contain.
	if bytes.Contains(files[0].content, []byte("ld-linux")) {
		t.Error("the program is linked dynamically")
	}
	if entries, _ := filepath.Glob(filepath.Join(scratch, "csenv-programs-*")); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// Docker builds the image too, from the files that the Dockerfile copies.
func TestDockerfileCopiesWhatIsBuilt(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{if and .Module .Module.Main}}{{.Dir}}{{end}}", "../../cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	copied := foldersAfter(t, "../../Dockerfile", "COPY ")
	admitted := foldersAfter(t, "../../.dockerignore", "!")
	for folder := range strings.FieldsSeq(string(out)) {
		folder, err := filepath.Rel(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		within := func(top string) bool { return folder == top || strings.HasPrefix(folder, top+"/") }
		if !slices.ContainsFunc(copied, within) || !slices.ContainsFunc(admitted, within) {
			t.Errorf("%s is built, but Docker doesn't get it: the Dockerfile copies %q, .dockerignore admits %q",
				folder, copied, admitted)
		}
	}
}

// foldersAfter returns the first word after the prefix, of every line with that prefix.
func foldersAfter(t *testing.T, file, prefix string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			folders = append(folders, strings.Fields(rest)[0])
		}
	}
	return folders
}

// The image serves an environment when it is started without a command, as OpenEnv's tools do. The
// operator's own pods name their programs.
func TestImagesServeByDefault(t *testing.T) {
	for path, want := range map[string]string{
		"../../Dockerfile":                          `ENTRYPOINT ["` + defaultProgram + `"]`,
		"../../config/manager/deployment.yaml":      "command: [/manager]",
		"../../controllers/run/runnerjob.go":        `Command: []string{"/runner"}`,
		"../../controllers/environment/children.go": `Command: []string{"/envserver"}`,
	} {
		text, err := os.ReadFile(path)
		if plain := strings.Join(strings.Fields(string(text)), " "); err != nil || !strings.Contains(plain, want) {
			t.Errorf("%s lacks %s: %v", path, want, err)
		}
	}
}
