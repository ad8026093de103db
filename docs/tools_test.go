package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/csenv/csenv/scenarios/desk"
)

const (
	toolsBegin = "<!-- tools: written by go test ./docs -update from scenarios/desk/tools.go -->\n\n"
	toolsEnd   = "\n<!-- end of tools -->"
)

// The page of environments has the tools of written workflows, the page of cases the others.
func TestTheToolsAreThoseOfTheDesk(t *testing.T) {
	for page, casesOnly := range map[string]bool{"environments.md": false, "cases.md": true} {
		before, rest, found := strings.Cut(read(t, page), toolsBegin)
		_, after, ended := strings.Cut(rest, toolsEnd)
		if !found || !ended {
			t.Fatalf("%s has no place for the tools", page)
		}
		var table strings.Builder
		table.WriteString("| action | payload | |\n|---|---|---|\n")
		for _, tool := range desk.Tools {
			if (tool.Tasks != 0) != casesOnly {
				continue
			}
			args := make([]string, len(tool.Args))
			for i, arg := range tool.Args {
				name, optional := strings.CutSuffix(arg, "?")
				args[i] = "`" + name + "`" + map[bool]string{true: "?"}[optional]
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", tool.Name, strings.Join(args, ", "), strings.TrimSuffix(tool.About, "."))
		}
		want := before + toolsBegin + table.String() + toolsEnd + after
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if read(t, page) != want {
			t.Errorf("the tools of %s differ from scenarios/desk: run go test ./docs -update", page)
		}
	}
}
