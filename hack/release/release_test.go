package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// project is a repository with everything that a release needs, and programs that build at once.
const project = `
-- go.mod --
module example.com/csenv

go 1.26.0
-- cmd/csenv/main.go --
package main

import "os"

var version = "dev"

func main() {
	os.MkdirAll(os.Args[2]+"/man", 0o755)
	os.WriteFile(os.Args[2]+"/man/csenv.1", []byte("csenv "+version+"\n"), 0o644)
}
-- cmd/envserver/main.go --
package main

var version = "dev"

func main() { println(version) }
-- LICENSE --
Apache-2.0
-- README.md --
csenv
-- config/default/kustomization.yaml --
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [deployment.yaml]
images:
- name: csenv
  newName: csenv
  newTag: dev
replacements:
- source: {kind: Deployment, name: csenv-manager, fieldPath: "spec.template.spec.containers.[name=manager].image"}
  targets:
  - select: {kind: Deployment, name: csenv-manager}
    fieldPaths: ["spec.template.spec.containers.[name=manager].env.[name=CSENV_IMAGE].value"]
-- config/default/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: csenv-manager}
spec:
  template:
    spec:
      containers:
      - name: manager
        image: csenv
        env:
        - name: CSENV_IMAGE
          value: csenv
-- python/pyproject.toml --
[project]
name = "customer-support-env"
version = "0.1.0"

[tool.hatch.build.targets.wheel]
packages = ["customer_support_env"]
-- python/customer_support_env/__init__.py --
"""The package."""
-- python/openenv-customer-support-env/pyproject.toml --
[project]
name = "openenv-customer-support-env"
version = "0.1.0"
-- charts/csenv/Chart.yaml --
apiVersion: v2
name: csenv
version: 0.0.0
appVersion: dev
-- charts/csenv/values.yaml --
# The image.
image:
  repository: csenv
  tag: ""
replicas: 1
-- charts/csenv/templates/operator.yaml --
image: {{ .Values.image.repository }}
`

// newProject writes and commits the project.
func newProject(t *testing.T) string {
	t.Helper()
	repo := t.TempDir()
	for _, file := range txtar.Parse([]byte(project)).Files {
		writeFile(t, filepath.Join(repo, file.Name), file.Data)
	}
	git(t, repo, "init", "--quiet")
	commit(t, repo)
	return repo
}

func commit(t *testing.T, repo string) {
	t.Helper()
	git(t, repo, "add", "--all")
	git(t, repo, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "A commit")
}

func git(t *testing.T, repo string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = repo
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, output)
	}
}

func writeFile(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := readPrivateKey(newKeyFile(t, elliptic.P256(), ""))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRelease(t *testing.T, repo string, key *ecdsa.PrivateKey) *release {
	t.Helper()
	platforms, err := parsePlatforms("linux/amd64,linux/arm64")
	if err != nil {
		t.Fatal(err)
	}
	return &release{repo: repo, version: "v1.2.3", repository: "registry.example/csenv", platforms: platforms,
		builder: "https://example.com/builder", key: key, progress: io.Discard}
}

func build(t *testing.T, r *release) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	if err := r.build(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// verify verifies a release as its users do, without a key.
func verify(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "-s", "-C", "../..", "release-verify", "DIST="+dir, "COSIGN_PUB=")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found[name], err = os.ReadFile(filepath.Join(dir, name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Two releases of a commit, from two checkouts, have the same bytes, and a changed byte in any
// file, a missing file and an additional file don't pass.
func TestReleaseIsReproducibleAndVerified(t *testing.T) {
	repo, key := newProject(t), newKey(t)
	dir := build(t, newRelease(t, repo, key))
	clone := filepath.Join(t.TempDir(), "another", "clone")
	git(t, repo, "clone", "--quiet", repo, clone)
	first, second := files(t, dir), files(t, build(t, newRelease(t, clone, key)))
	if len(first) != len(second) {
		t.Errorf("%d files, then %d", len(first), len(second))
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs in the second release", name)
		}
	}
	if output, err := verify(t, dir); err != nil {
		t.Fatalf("the release doesn't pass: %v\n%s", err, output)
	}
	for _, name := range []string{installFile, provenanceFile, chartFile("v1.2.3"), "image/index.json"} {
		content := first[name]
		changed := bytes.Clone(content)
		changed[len(content)/2] ^= 1
		writeFile(t, filepath.Join(dir, name), changed)
		if output, err := verify(t, dir); err == nil || !strings.Contains(output, name) {
			t.Errorf("a change of a byte of %s: %v\n%s", name, err, output)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if output, err := verify(t, dir); err == nil || !strings.Contains(output, name) {
			t.Errorf("without %s: %v\n%s", name, err, output)
		}
		writeFile(t, filepath.Join(dir, name), content)
	}
	writeFile(t, filepath.Join(dir, "image", "blobs", "extra"), []byte("extra"))
	if output, err := verify(t, dir); err == nil || !strings.Contains(output, "image/blobs/extra") {
		t.Errorf("an additional file: %v\n%s", err, output)
	}
}
