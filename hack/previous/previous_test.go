package previous

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// history makes a checkout with three commits, each of which changes the file config/a.yaml.
func history(t *testing.T) string {
	t.Helper()
	t.Setenv(revisionVariable, "")
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "test")
	}
	folder := t.TempDir()
	do(t, folder, "init", "--quiet")
	for _, content := range []string{"1", "2", "3"} {
		if err := os.MkdirAll(filepath.Join(folder, "config"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "config", "a.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		do(t, folder, "add", ".")
		do(t, folder, "commit", "--quiet", "--message", content)
	}
	return folder
}

func do(t *testing.T, folder string, args ...string) {
	t.Helper()
	if _, err := runGit(t.Context(), folder, args...); err != nil {
		t.Fatal(err)
	}
}

func TestTheNewestTagBeforeHEADIsThePreviousRelease(t *testing.T) {
	folder := history(t)
	do(t, folder, "tag", "v1", "HEAD~2")
	do(t, folder, "tag", "v2", "HEAD~1")
	do(t, folder, "tag", "another", "HEAD~1")
	do(t, folder, "tag", "v3", "HEAD")
	for from, want := range map[string][2]string{"": {"v2", "2"}, "v1": {"v1", "1"}} {
		t.Setenv(revisionVariable, from)
		release, err := FindRelease(t.Context(), folder)
		if err != nil || release.Name != want[0] {
			t.Fatalf("%q: %v, %v", from, release, err)
		}
		files, err := release.Files(t.Context(), "config")
		if diff := cmp.Diff(map[string][]byte{"a.yaml": []byte(want[1])}, files); err != nil || diff != "" {
			t.Errorf("%q: %v, files (-want +got):\n%s", from, err, diff)
		}
		out := t.TempDir()
		// Git archives only the folder that it runs in.
		release.checkout = filepath.Join(folder, "config")
		if err := release.Extract(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(out, "config", "a.yaml")); err != nil || string(text) != want[1] {
			t.Errorf("%q: extracted %q, %v", from, text, err)
		}
	}
}

func TestACheckoutWithoutThePreviousRelease(t *testing.T) {
	_, err := FindRelease(t.Context(), history(t))
	if !errors.Is(err, ErrNoHistory) || !strings.Contains(err.Error(), untagged+": run `git fetch --unshallow") {
		t.Errorf("error %v", err)
	}
}
