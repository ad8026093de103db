package scenarios

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/csenv/csenv/scenarios/pack"
)

// Only a small regular file is read as a manifest; others don't block.
func TestFolderName(t *testing.T) {
	write := func(data []byte) func(string) error {
		return func(file string) error { return os.WriteFile(file, data, 0o600) }
	}
	for name, tt := range map[string]struct {
		make func(file string) error
		want string
	}{
		"named":  {write([]byte("name: acme\nversion: 1\n")), "acme"},
		"faulty": {write([]byte("nam: acme\n")), ""},
		"large": {write(append([]byte("name: acme\nversion: 1\n"),
			bytes.Repeat([]byte("#\n"), pack.MaxFileBytes)...)), ""},
		"none": {func(string) error { return nil }, ""},
		"pipe": {func(file string) error { return syscall.Mkfifo(file, 0o600) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.make(filepath.Join(dir, "pack.yaml")); err != nil {
				t.Fatal(err)
			}
			if got := FolderName(dir); got != tt.want {
				t.Errorf("name %q, want %q", got, tt.want)
			}
		})
	}
	if got := FolderName("none"); got != "" {
		t.Errorf("a missing folder has the name %q", got)
	}
}
