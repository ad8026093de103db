package venv

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// commands records the commands that are run, and fails those that contain a given word.
type commands struct {
	ran   []string
	fails []string
}

func (c *commands) run(_ context.Context, _ string, args ...string) ([]byte, error) {
	line := strings.Join(args, " ")
	c.ran = append(c.ran, line)
	for _, word := range c.fails {
		if strings.Contains(line, word) {
			return []byte("no route to host"), errors.New("exit status 1")
		}
	}
	if strings.HasPrefix(line, "-m venv") {
		bin := filepath.Join(args[len(args)-1], "bin")
		return nil, errors.Join(os.MkdirAll(bin, 0o750), os.WriteFile(filepath.Join(bin, "python"), nil, 0o600))
	}
	return nil, nil
}

func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		fails   []string
		offline bool
		ran     int
	}{
		"installed":                       {nil, false, 3},
		"index can't be reached":          {[]string{"pip install", "pip download"}, true, 4},
		"requirements can't be met":       {[]string{"pip install"}, false, 4},
		"old interpreter":                 {[]string{"version_info"}, false, 1},
		"interpreter without venv":        {[]string{"-m venv"}, false, 2},
		"installed, the probe would fail": {[]string{"pip download"}, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			requirements := filepath.Join(t.TempDir(), "requirements.txt")
			writeFile(t, requirements, "openenv==0.10.0\n")
			fake, progress := &commands{fails: c.fails}, &bytes.Buffer{}
			p := Maker{Command: "python3", Progress: progress, Run: fake.run}
			first, err := p.Environment(t.Context(), "openenv", requirements)
			if errors.Is(err, ErrOffline) != c.offline || len(fake.ran) != c.ran {
				t.Fatalf("error %v after %q", err, fake.ran)
			}
			if failed := c.ran != 3; failed != (err != nil) {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(progress.String(), "installing") {
				t.Errorf("no message before a long step: %q", progress)
			}
			again, err := p.Environment(t.Context(), "openenv", requirements)
			if c.ran == 3 && (again != first || len(fake.ran) != 3 || err != nil) {
				t.Errorf("the second time: %q, %v, %q", again, err, fake.ran)
			}
			if c.ran != 3 && err == nil {
				t.Error("an incomplete environment was reused")
			}
		})
	}
}

func TestEnvironmentPerRequirements(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	requirements := filepath.Join(t.TempDir(), "requirements.txt")
	p := Maker{Command: "python3", Progress: &bytes.Buffer{}, Run: new(commands).run}
	folders := map[string]bool{}
	for _, text := range []string{"openenv==0.9.0\n", "openenv==0.10.0\n", "openenv==0.9.0\n"} {
		writeFile(t, requirements, text)
		path, err := p.Environment(t.Context(), "openenv", requirements)
		if err != nil {
			t.Fatal(err)
		}
		folders[path] = true
	}
	if len(folders) != 2 {
		t.Errorf("%d folders, want 2", len(folders))
	}
}

// The Python that created an environment may have been removed since.
func TestEnvironmentWithoutInterpreterIsRecreated(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	requirements := filepath.Join(t.TempDir(), "requirements.txt")
	writeFile(t, requirements, "openenv==0.10.0\n")
	fake := &commands{}
	p := Maker{Command: "python3", Progress: &bytes.Buffer{}, Run: fake.run}
	path, err := p.Environment(t.Context(), "openenv", requirements)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, "bin", "python")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Environment(t.Context(), "openenv", requirements); err != nil || len(fake.ran) != 6 {
		t.Errorf("error %v after %q", err, fake.ran)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
