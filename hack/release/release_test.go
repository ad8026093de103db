package main

import (
	"bytes"
	"crypto/ecdsa"
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

// newKeys makes a key pair, and returns the path of its files without their endings.
func newKeys(t *testing.T) string {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "cosign")
	if err := makeKeys(prefix); err != nil {
		t.Fatal(err)
	}
	return prefix
}

func readKey(t *testing.T, prefix string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := readPrivateKey(prefix + ".key")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	return readKey(t, newKeys(t))
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

// verify returns the report and whether the release passed.
func verify(t *testing.T, dir string, key *ecdsa.PublicKey) (string, bool) {
	t.Helper()
	v := verification{dir: dir, key: key}
	v.run()
	var report bytes.Buffer
	err := v.report(&report)
	return report.String(), err == nil
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
	report, ok := verify(t, dir, &key.PublicKey)
	if !ok || strings.Contains(report, notChecked) {
		t.Fatalf("the release doesn't pass:\n%s", report)
	}
	for name, content := range first {
		changed := bytes.Clone(content)
		changed[len(content)/2] ^= 1
		writeFile(t, filepath.Join(dir, name), changed)
		if report, ok := verify(t, dir, &key.PublicKey); ok {
			t.Errorf("a change of a byte of %s passes:\n%s", name, report)
		}
		writeFile(t, filepath.Join(dir, name), content)
	}
	if err := os.Remove(filepath.Join(dir, installFile)); err != nil {
		t.Fatal(err)
	}
	if report, ok := verify(t, dir, &key.PublicKey); ok || !strings.Contains(report, installFile+" is missing") {
		t.Errorf("without a file:\n%s", report)
	}
	writeFile(t, filepath.Join(dir, installFile), first[installFile])
	writeFile(t, filepath.Join(dir, "image", "blobs", "extra"), []byte("extra"))
	if report, ok := verify(t, dir, &key.PublicKey); ok || !strings.Contains(report, "image/blobs/extra has no checksum") {
		t.Errorf("an additional file:\n%s", report)
	}
	if err := os.Remove(filepath.Join(dir, "image", "blobs", "extra")); err != nil {
		t.Fatal(err)
	}
	if report, ok := verify(t, dir, &newKey(t).PublicKey); ok || strings.Count(report, "another key") != 4 {
		t.Errorf("another key:\n%s", report)
	}
	if report, ok := verify(t, dir, nil); !ok || strings.Count(report, notChecked) != 4 {
		t.Errorf("without a key, the signatures must be reported as not checked:\n%s", report)
	}
}
