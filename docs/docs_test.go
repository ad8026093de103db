// Package docs checks the links between the pages. The pages of a version link to nothing of
// another version.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	other   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors returns the names by which a page's headings can be linked to.
func anchors(page string) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		name := other.ReplaceAllString(strings.ToLower(strings.TrimSpace(match[1])), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// listPages returns the pages of this folder and of those below it.
func listPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, below...)
}

func TestLinksLeadToPagesOfTheSameVersion(t *testing.T) {
	for _, page := range append(listPages(t), "../README.md", "../AGENTS.md", "../CONTRIBUTING.md", "../CHANGELOG.md") {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				if strings.Contains(target, "github.com/csenv/csenv/") {
					t.Errorf("%s: %s isn't relative, so it leads out of this version", page, target)
				}
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			path := filepath.Join(filepath.Dir(page), file)
			if file == "" {
				path = page
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s leads nowhere", page, target)
			} else if anchor != "" && !slices.Contains(anchors(read(t, path)), anchor) {
				t.Errorf("%s: %s has no heading %q", page, path, anchor)
			}
		}
	}
}

func TestTheIndexListsEveryPage(t *testing.T) {
	decisions := read(t, "decisions/README.md")
	for _, page := range listPages(t) {
		index, name := read(t, "README.md"), page
		if after, isDecision := strings.CutPrefix(page, "decisions/"); isDecision && after != "README.md" {
			index, name = decisions, after
		}
		if page != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("no index lists %s", page)
		}
	}
}
