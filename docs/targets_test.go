package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	target  = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	calling = regexp.MustCompile(`\bmake((?: [a-z][a-z0-9-]*\b)+)`)
	comment = regexp.MustCompile(`#.*`)
)

// targets returns the targets that the commands of a page call.
func targets(page string) []string {
	var names []string
	for _, text := range code.FindAllString(page, -1) {
		for _, match := range calling.FindAllStringSubmatch(comment.ReplaceAllString(text, ""), -1) {
			names = append(names, strings.Fields(match[1])...)
		}
	}
	return names
}

func TestTheTargetsOfThePagesExist(t *testing.T) {
	known := map[string]bool{}
	for _, match := range target.FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		known[match[1]] = true
	}
	found := 0
	for _, pattern := range []string{"*.md", "*/*.md", "../*.md", "../examples/*/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			for _, name := range targets(read(t, page)) {
				found++
				if !known[name] {
					t.Errorf("%s: the Makefile has no target %s", page, name)
				}
			}
		}
	}
	if found == 0 {
		t.Error("found no target")
	}
}
