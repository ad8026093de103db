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

	"github.com/csenv/csenv/controllers/pods"
)

var update = flag.Bool("update", false, "write conditions.md from the comments of the constants")

const conditionsHead = `# Conditions and reasons

What ` + "`kubectl describe cse NAME`" + ` and ` + "`kubectl describe evalrun NAME`" + ` show. The message of a condition has the details of the object.
[Troubleshooting](troubleshooting.md) has what to do. This page is written by ` + "`go test ./docs -update`" + ` from the constants of the API and from controllers/pods.
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
	for _, r := range pods.ListRemedies() {
		advice := strings.ReplaceAll(r.Advice, "$1", "NAME")
		fmt.Fprintf(page, "| %s | %s | %s |\n", r.From, r.Cause, pods.Server.Write(advice))
	}
}

// The page of the conditions has every constant with its comment, and no other.
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
		fmt.Fprintf(&page, "\n## %s\n\n| name | meaning |\n|---|---|\n", strings.TrimSpace(title))
		for _, spec := range group.Specs {
			page.WriteString(row(t, spec))
		}
	}
	writeRemedies(&page)
	if *update {
		if err := os.WriteFile("conditions.md", []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "conditions.md") != page.String() {
		t.Error("conditions.md differs from api/v1alpha1/conditions.go: run go test ./docs -update")
	}
}

// row is the row of a constant: its value, and its comment without its name.
func row(t *testing.T, spec ast.Spec) string {
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
	text := strings.Join(strings.Fields(constant.Doc.Text()), " ")
	text = strings.TrimLeft(strings.TrimPrefix(text, constant.Names[0].Name), ": ")
	return fmt.Sprintf("| `%s` | %s |\n", value, text)
}

// The page of the errors names every code of the protocol.
func TestEveryErrorCodeIsDescribed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../envserver/openenv/protocol/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	page, codes := read(t, "errors.md"), 0
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
			t.Errorf("errors.md has no row for %s", literal.Value)
		}
		return true
	})
	if codes == 0 {
		t.Error("found no code in errors.go")
	}
}
