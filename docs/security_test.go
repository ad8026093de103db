package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest matches a test that a page names (1), or the folder of those before it (2).
var namedTest = regexp.MustCompile("`(Test\\w+)`|\\(([a-z0-9]+(?:/[a-z0-9]+)*)\\)")

// What SECURITY.md promises is shown by tests that exist.
func TestPromisesHaveTests(t *testing.T) {
	checked := 0
	for line := range strings.Lines(read(t, "../SECURITY.md")) {
		var tests []string
		for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
			if m[1] != "" {
				tests = append(tests, m[1])
				continue
			}
			for _, name := range tests {
				if checked++; !hasTest(t, filepath.Join("..", m[2]), name) {
					t.Errorf("there is no %s in %s", name, m[2])
				}
			}
			tests = nil
		}
		if len(tests) > 0 {
			t.Errorf("no folder is named for %q", tests)
		}
	}
	if checked < 20 {
		t.Errorf("SECURITY.md names %d tests: its table is no longer understood", checked)
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(read(t, file), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
