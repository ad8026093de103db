package main

import (
	"fmt"
	"os"
	"strings"
)

// listing is a line of a file that leads to the page, and the line that it follows.
type listing struct{ path, after, line string }

// listings are the index of the documentation and the navigation of its site.
var listings = []listing{
	{"docs/README.md", "| [benchmark.md](benchmark.md) | ", "| [scale.md](scale.md) | many sessions on several " +
		"servers of one machine, with a rolling update |"},
	{"mkdocs.yml", "  - benchmark.md", "  - scale.md"},
}

// write adds the line to the file, unless it has it.
func (l listing) write() error {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return fmt.Errorf("listing the page: %w", err)
	}
	listed, err := l.in(string(text))
	if err != nil || listed == string(text) {
		return err
	}
	return os.WriteFile(l.path, []byte(listed), 0o644) //nolint:gosec // a file of the checkout
}

func (l listing) in(text string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, l.after) {
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], l.line) {
				return text, nil
			}
			lines[i] += l.line + "\n"
			return strings.Join(lines, ""), nil
		}
	}
	return "", fmt.Errorf("listing the page: %s has no line that begins with %q", l.path, l.after)
}
