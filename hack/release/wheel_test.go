package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPythonVersions(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3rc1", "v1.2.3-alpha4": "1.2.3a4", "v1.2.3-beta.0": "1.2.3b0",
		"v1.2.3-next.Big-1": "1.2.3.dev0+next.big.1",
	} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}

// The wheels of this repository have what an installer checks, and are the same each time.
func TestWheels(t *testing.T) {
	var before []byte
	for range 2 {
		r := &release{source: filepath.Join("..", ".."), stage: t.TempDir(), version: "v1.2.3-rc.1",
			created: time.Unix(1_700_000_000, 0)}
		if err := r.packPython(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"customer_support_env-1.2.3rc1.tar.gz",
			"openenv_customer_support_env-1.2.3rc1.tar.gz", "openenv_customer_support_env-1.2.3rc1-py3-none-any.whl"} {
			if _, err := os.Stat(filepath.Join(r.stage, name)); err != nil {
				t.Error(err)
			}
		}
		packed, err := os.ReadFile(filepath.Join(r.stage, "customer_support_env-1.2.3rc1-py3-none-any.whl"))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(packed, before) {
			t.Error("two wheels of one source differ")
		}
		before = packed
	}
	files := unzip(t, before)
	about := "customer_support_env-1.2.3rc1.dist-info/"
	if metadata := files[about+"METADATA"]; !strings.Contains(metadata, "\nVersion: 1.2.3rc1\n") ||
		!strings.Contains(metadata, "\nRequires-Dist: openenv>=0.4.1\n") {
		t.Errorf("METADATA is\n%s", metadata)
	}
	for _, name := range []string{"customer_support_env/py.typed", "customer_support_env/openenv.yaml",
		"customer_support_verifiers/__init__.py"} {
		if _, ok := files[name]; !ok {
			t.Errorf("the wheel has no %s", name)
		}
	}
	record := files[about+"RECORD"]
	for name, content := range files {
		sum := sha256.Sum256([]byte(content))
		want := name + ",sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]) + ","
		if name != about+"RECORD" && !strings.Contains(record, want) {
			t.Errorf("RECORD has no %s", want)
		}
	}
}

func unzip(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range archive.File {
		opened, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name] = string(content)
	}
	return files
}
