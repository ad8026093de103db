package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// joined is the place where a string continues on the next line.
var joined = regexp.MustCompile(`"\s*\+\s*"`)

// source returns the text of the programs, in which strings of several lines are joined.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"api", "cmd", "controllers", "envserver", "hack"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, entry fs.DirEntry, err error) error {
			ext := filepath.Ext(path)
			program := ext == ".go" && !strings.HasSuffix(path, "_test.go") || ext == ".sh" || ext == ".py"
			if err == nil && program && !entry.IsDir() {
				all.WriteString(joined.ReplaceAllString(read(t, path), ""))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// Every message of the page is one of a program: a reader searches the page for what he has read.
func TestTroubleshootingQuotesRealMessages(t *testing.T) {
	programs, quoted := source(t), 0
	for line := range strings.Lines(read(t, "troubleshooting.md")) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, message := range code.FindAllString(cells[1], -1) {
			quoted++
			for part := range strings.SplitSeq(strings.Trim(message, "`"), "…") {
				if part = strings.Trim(part, ` ":`); !strings.Contains(programs, part) {
					t.Errorf("no program prints %q of %s", part, message)
				}
			}
		}
	}
	if quoted == 0 {
		t.Error("found no message")
	}
}
