package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/rules"
)

// The generated parts of runs.md are between these lines.
const (
	runRulesBegin = "<!-- Written by `go test ./docs -update` from controllers/run/rules. -->\n"
	runRulesEnd   = "<!-- End of the rules. -->\n"
)

// The page of the runs has the rules that decide the state of a run, in the order in which they are
// asked.
func TestTheReasonsAreThoseOfTheRules(t *testing.T) {
	var failures, others strings.Builder
	names := strings.NewReplacer("RESUME", "resume the run", "LOGS", "`kubectl logs -n NAMESPACE -l "+v1alpha1.LabelRun+
		"=NAME`", "pool POOL", "the pool", "TAG", "NAME")
	for _, rule := range rules.Table {
		if rule.When == "" {
			t.Errorf("the rule of %s doesn't say when it holds", rule.Reason)
		}
		table, state := &others, "| "+describeState(rule.State)+" "
		if rule.State == evaluation.Failed {
			table, state = &failures, ""
		}
		fmt.Fprintf(table, "%s| `%s` | %s | %s |\n", state, rule.Reason, rule.When, names.Replace(rule.Advice))
	}
	want := runRulesBegin + "\n| reason of `Failed` | cause | what to do |\n|---|---|---|\n" + failures.String() +
		"\n| state | reason of `Complete` | when | what to do |\n|---|---|---|---|\n" + others.String() + "\n" + runRulesEnd
	page := read(t, "runs.md")
	before, rest, found := strings.Cut(page, runRulesBegin)
	_, after, ended := strings.Cut(rest, runRulesEnd)
	if !found || !ended {
		t.Fatal("runs.md has no place for the rules")
	}
	if *update {
		page = before + want + after
		if err := os.WriteFile("runs.md", []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(page, want) {
		t.Error("runs.md differs from controllers/run/rules: run go test ./docs -update")
	}
}

func describeState(state evaluation.State) string {
	switch state {
	case evaluation.Waiting:
		return "waits"
	case evaluation.Running:
		return "runs"
	case evaluation.Completed:
		return "complete"
	default:
		return "failed"
	}
}
