package main

import (
	"bytes"
	"crypto/ecdsa"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// What can't become a release is refused with the reason, and leaves no folder behind.
func TestReleaseIsRefused(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, r *release)
		want   string
	}{
		"no version":     {func(_ *testing.T, r *release) { r.version = "" }, "set VERSION"},
		"no v":           {func(_ *testing.T, r *release) { r.version = "1.2.3" }, "must be a semantic version"},
		"short version":  {func(_ *testing.T, r *release) { r.version = "v1.2" }, "must be a semantic version"},
		"no Linux":       {func(_ *testing.T, r *release) { r.platforms[0].OS, r.platforms[1].OS = "darwin", "darwin" }, "needs a platform of Linux"},
		"uncommitted":    {func(t *testing.T, r *release) { writeFile(t, filepath.Join(r.repo, "new"), nil) }, "?? new"},
		"tag elsewhere":  {func(t *testing.T, r *release) { git(t, r.repo, "tag", r.version); again(t, r.repo, "README.md") }, "git checkout v1.2.3"},
		"without charts": {func(t *testing.T, r *release) { remove(t, r.repo, "charts") }, "no chart in charts/csenv"},
		"other chart":    {func(t *testing.T, r *release) { again(t, r.repo, "charts/csenv/values.yaml") }, "0 places match"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelease(t, newProject(t), nil)
			test.change(t, r)
			out := filepath.Join(t.TempDir(), "dist")
			if err := r.build(t.Context(), out); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// again commits another content of a file.
func again(t *testing.T, repo, file string) {
	t.Helper()
	writeFile(t, filepath.Join(repo, file), []byte("other\n"))
	commit(t, repo)
}

func remove(t *testing.T, repo, folder string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(repo, folder)); err != nil {
		t.Fatal(err)
	}
	commit(t, repo)
}

func TestFolderThatIsNoReleaseIsKept(t *testing.T) {
	out := t.TempDir()
	writeFile(t, filepath.Join(out, "mine"), nil)
	if err := replaceRelease(out, t.TempDir()); err == nil || !strings.Contains(err.Error(), "is no release") {
		t.Errorf("got %v", err)
	}
}

// An unsigned release passes without a key, and its SBOMs can be read.
func TestUnsignedRelease(t *testing.T) {
	dir := build(t, newRelease(t, newProject(t), nil))
	if output, err := verify(t, dir); err != nil || !strings.Contains(output, "signatures were not checked") {
		t.Errorf("%v: %s", err, output)
	}
	for file, content := range files(t, dir) {
		if !strings.HasSuffix(file, ".cdx.json") {
			continue
		}
		var bom cyclonedx.BOM
		err := cyclonedx.NewBOMDecoder(bytes.NewReader(content), cyclonedx.BOMFileFormatJSON).Decode(&bom)
		if err != nil || bom.SpecVersion != cyclonedx.SpecVersion1_6 || bom.Metadata.Component.Version != "v1.2.3" ||
			len(*bom.Components) != 1 || (*bom.Components)[0].Name != "std" {
			t.Errorf("%s: %v\n%s", file, err, content)
		}
	}
}

// pushRelease builds a release and pushes it to a registry. It returns its folder and what was
// pushed: the image and the chart, by digest.
func pushRelease(t *testing.T, key *ecdsa.PrivateKey) (r *release, dir string, pushed []string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	r = newRelease(t, newProject(t), key)
	r.repository = strings.TrimPrefix(server.URL, "http://") + "/team/csenv"
	dir = build(t, r)
	pushed, err := pushArtefacts(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(pushed) != 2 || !strings.Contains(pushed[1], "/team/charts/csenv@sha256:") {
		t.Fatalf("pushed %v", pushed)
	}
	return r, dir, pushed
}

// The registry has what the manifests of the release name, with its signature as a referrer.
func TestPush(t *testing.T) {
	r, _, pushed := pushRelease(t, newKey(t))
	for _, reference := range append(pushed, r.image) {
		digest, err := name.NewDigest(reference)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := remote.Head(digest); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
		referrers, err := remote.Referrers(digest)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := referrers.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 ||
			manifest.Manifests[0].Annotations["dev.sigstore.bundle.predicateType"] != signatureType {
			t.Errorf("%s has the referrers %v, %v", reference, manifest, err)
		}
	}
}
