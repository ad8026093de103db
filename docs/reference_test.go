package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	poolrules "github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	runrules "github.com/csenv/csenv/controllers/run/rules"
)

var update = flag.Bool("update", false, "write conditions.md from the comments of the constants")

const conditionsHead = `# Conditions and reasons

Every condition, reason and event of both kinds, and what to do. ` + "`kubectl describe`" + ` shows them, with a message that names the objects; the STATE of ` + "`kubectl get`" + ` is the reason of Ready.
[Troubleshooting](troubleshooting.md) finds them by the words of a message.

This page is written by ` + "`go test ./docs -update`" + ` from the constants of the API, from controllers/pods, and from the rules of both controllers.
`

const remediesHead = `
## What keeps pods from running

Messages of pools and runs quote why a pod doesn't run, and say what to do if the words are known.
For a run they say ` + "`spec.parallelism`" + ` instead of ` + "`spec.replicas`" + `, and, because what its pods are made of can't be changed, to delete the run and create it again instead of changing ` + "`spec.template`" + `.

| who says it | cause | what to do |
|---|---|---|
`

func writeRemedies(page *strings.Builder) {
	page.WriteString(remediesHead)
	for _, r := range pods.Remedies {
		advice := strings.ReplaceAll(r.Advice, "$1", "NAME")
		fmt.Fprintf(page, "| %s | %s | %s |\n", r.From, r.Cause, pods.Server.Write(advice))
	}
}

// The page of the conditions lists every constant: with the rules that give a condition its reason,
// or else with its comment.
func TestTheConditionsAreThoseOfTheAPI(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../api/v1alpha1/conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(conditionsHead)
	for _, declared := range file.Decls {
		group, ok := declared.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		title, _, _ := strings.Cut(group.Doc.Text(), ".\n")
		title, _, _ = strings.Cut(title, ", which")
		ruled := writeRules(&page, strings.TrimSpace(title))
		for _, spec := range group.Specs {
			if name, text := describe(t, spec); !ruled[name] {
				fmt.Fprintf(&page, "| `%s` | %s |\n", name, text)
			}
		}
	}
	writeRemedies(&page)
	if *update {
		if err := os.WriteFile("conditions.md", []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "conditions.md") != page.String() {
		t.Error("conditions.md differs from api/v1alpha1/conditions.go or from the rules: run go test ./docs -update")
	}
}

// Every reason of the conditions of a pool that the API documents has a rule.
func TestEveryReasonOfAPoolHasARule(t *testing.T) {
	_, section, found := strings.Cut(read(t, "conditions.md"), "\n## "+reasonsOfPools+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found || !strings.Contains(section, "`"+v1alpha1.ReasonServersReady+"`") {
		t.Fatal("found no reasons")
	}
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") && len(strings.Split(line, " | ")) < 4 {
			t.Errorf("no rule has the reason of %s", line)
		}
	}
}

// The groups of reasons whose rules are listed.
const (
	reasonsOfPools = "Reasons of a CustomerSupportEnv's conditions"
	reasonsOfRuns  = "Reasons of an EvaluationRun's conditions"
)

// writeRules begins the section of a group of constants, and returns the names that its rules list.
func writeRules(page *strings.Builder, title string) map[string]bool {
	fmt.Fprintf(page, "\n## %s\n\n", title)
	ruled := map[string]bool{}
	switch title {
	case reasonsOfPools:
		page.WriteString("If several rules of a condition hold, the first one counts.\n\n" +
			"| condition | reason | when | what to do |\n|---|---|---|---|\n")
		for _, rule := range poolrules.Table {
			ruled[rule.Reason] = true
			fmt.Fprintf(page, "| `%s` %s | `%s` | %s | %s |\n", poolrules.NameCondition(rule.Stage), rule.State,
				rule.Reason, rule.When,
				rule.Advice)
		}
	case reasonsOfRuns:
		var failures, others strings.Builder
		for _, rule := range runrules.Table {
			ruled[rule.Reason] = true
			table, state := &others, "| "+describeState(rule.State)+" "
			if rule.State == evaluation.Failed {
				table, state = &failures, ""
			}
			fmt.Fprintf(table, "%s| `%s` | %s | %s |\n", state, rule.Reason, links.Replace(rule.When),
				links.Replace(rule.Advice))
		}
		page.WriteString("The rules are checked from top to bottom, and the first that holds decides the state " +
			"of a run.\n\n| reason of `Failed` | when | what to do |\n|---|---|---|\n" + failures.String() +
			"\n| state | reason of `Complete` | when | what to do |\n|---|---|---|---|\n" + others.String() +
			"\nReasons of other conditions:\n\n| name | meaning |\n|---|---|\n")
	default:
		page.WriteString("| name | meaning |\n|---|---|\n")
	}
	return ruled
}

// links makes links that lead from runs.md lead from conditions.md to the same places, and writes
// the words for which a message has values of its run.
var links = strings.NewReplacer("](conditions.md#", "](#", "[below](#", "[the list](runs.md#", "](#", "](runs.md#",
	"RESUME", "resume the run", "LOGS", "`kubectl logs -n NAMESPACE -l "+v1alpha1.LabelRun+"=NAME`", "pool POOL",
	"the pool", "TAG", "NAME")

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

// describe returns the value of a constant, and its comment without its name.
func describe(t *testing.T, spec ast.Spec) (value, text string) {
	t.Helper()
	constant, ok := spec.(*ast.ValueSpec)
	if !ok || len(constant.Values) != 1 || constant.Doc == nil {
		t.Fatalf("%v isn't one constant with a comment", spec)
	}
	literal, ok := constant.Values[0].(*ast.BasicLit)
	if !ok {
		t.Fatalf("%s isn't a string", constant.Names[0])
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Join(strings.Fields(constant.Doc.Text()), " ")
	return value, strings.TrimLeft(strings.TrimPrefix(text, constant.Names[0].Name), ": ")
}

// The page of the protocol describes every error code.
func TestEveryErrorCodeIsDescribed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../envserver/openenv/protocol/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	page, codes := read(t, "openenv.md"), 0
	ast.Inspect(file, func(node ast.Node) bool {
		constant, ok := node.(*ast.ValueSpec)
		if !ok || len(constant.Names) != 1 || !strings.HasPrefix(constant.Names[0].Name, "Code") {
			return true
		}
		literal, ok := constant.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s isn't a string", constant.Names[0])
		}
		codes++
		if !strings.Contains(page, "| `"+strings.Trim(literal.Value, `"`)+"` |") {
			t.Errorf("openenv.md has no row for %s", literal.Value)
		}
		return true
	})
	if codes == 0 {
		t.Error("found no code in errors.go")
	}
}
