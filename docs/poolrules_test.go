package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/rules"
)

const (
	poolRulesBegin = "<!-- rules: written by go test ./docs -update from controllers/environment/rules -->\n\n"
	poolRulesEnd   = "\n<!-- end of rules -->"
)

// The page of pools has every rule that gives a condition its reason, in the order of their check.
func TestTheReasonsOfPoolsAreThoseOfTheRules(t *testing.T) {
	page := read(t, "pools.md")
	before, rest, found := strings.Cut(page, poolRulesBegin)
	_, after, ended := strings.Cut(rest, poolRulesEnd)
	if !found || !ended {
		t.Fatal("pools.md has no place for the rules")
	}
	var table strings.Builder
	table.WriteString("| condition | reason | when | what to do |\n|---|---|---|---|\n")
	for _, rule := range rules.Table {
		fmt.Fprintf(&table, "| `%s` %s | `%s` | %s | %s |\n", rules.NameCondition(rule.Stage), rule.State, rule.Reason, rule.When,
			rule.Advice)
	}
	want := before + poolRulesBegin + table.String() + poolRulesEnd + after
	if *update {
		if err := os.WriteFile("pools.md", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if page = read(t, "pools.md"); page != want {
		t.Error("pools.md differs from controllers/environment/rules: run go test ./docs -update")
	}
}

// Every reason of the conditions of a pool that the API documents has a rule.
func TestEveryReasonOfAPoolHasARule(t *testing.T) {
	has := map[string]bool{}
	for _, rule := range rules.Table {
		has[rule.Reason] = true
	}
	_, section, found := strings.Cut(read(t, "conditions.md"), "## Reasons of a CustomerSupportEnv's conditions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found || !has[v1alpha1.ReasonServersReady] {
		t.Fatal("found no reasons")
	}
	for line := range strings.Lines(section) {
		if name, isRow := strings.CutPrefix(line, "| `"); isRow {
			if name, _, _ = strings.Cut(name, "`"); !has[name] {
				t.Errorf("no rule has the reason %s", name)
			}
		}
	}
}
