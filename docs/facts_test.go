package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/csenv/csenv/scenarios/facts"
)

const factsBegin = "<!-- Written by `go test ./docs -update` from scenarios/facts. -->\n"

// The page of the facts ends with the vocabulary.
func TestTheFactsAreThoseOfTheVocabulary(t *testing.T) {
	page := read(t, "facts.md")
	head, _, _ := strings.Cut(page, factsBegin)
	var table strings.Builder
	table.WriteString("| name | type | group | meaning | values, or an example |\n|---|---|---|---|---|\n")
	for _, n := range facts.Vocabulary {
		shown := []string{n.Example}
		if n.Values != nil {
			shown = n.Values
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | `%s` |\n", n.What, n.Type, n.Group, n.Meaning,
			strings.Join(shown, "`, `"))
	}
	want := head + factsBegin + table.String()
	if *update {
		if err := os.WriteFile("facts.md", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		page = want
	}
	if page != want {
		t.Error("the names of facts.md differ from scenarios/facts: run go test ./docs -update")
	}
}
