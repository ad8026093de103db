package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"regexp"
	"strings"

	"github.com/golangci/unconvert"
	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/unused"
)

// pos returns where a position is in the files of a pass, for libraries that return positions
// alone.
func pos(pass *analysis.Pass, p token.Position) token.Pos {
	for _, file := range pass.Files {
		if f := pass.Fset.File(file.FileStart); f.Name() == p.Filename {
			return f.LineStart(p.Line) + token.Pos(p.Column-1)
		}
	}
	return token.NoPos
}

// errcheckAnalyzer names the function whose error is not checked, as golangci-lint does: exclusions
// match it.
var errcheckAnalyzer = &analysis.Analyzer{
	Name: "unchecked", Doc: "errors that are not checked", Requires: []*analysis.Analyzer{errcheck.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, e := range pass.ResultOf[errcheck.Analyzer].(errcheck.Result).UncheckedErrors {
			message := "Error return value is not checked"
			if name := cmp.Or(e.SelectorName, e.FuncName); name != "" {
				message = "Error return value of `" + name + "` is not checked"
			}
			pass.Report(analysis.Diagnostic{Pos: pos(pass, e.Pos), Message: message})
		}
		return nil, nil
	},
}

var unconvertAnalyzer = &analysis.Analyzer{
	Name: "unconvert", Doc: "conversions to the type that a value has",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, p := range unconvert.Run(pass) {
			pass.Reportf(pos(pass, p), "unnecessary conversion")
		}
		return nil, nil
	},
}

// unusedAnalyzer sees a package with its tests, so what only tests use is used.
var unusedAnalyzer = &analysis.Analyzer{
	Name: "unused", Doc: "names that nothing uses", Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, o := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
			pass.Reportf(pos(pass, o.Position), "%s %s is unused", o.Kind, o.Name)
		}
		return nil, nil
	},
}

var explained = regexp.MustCompile(`^//nolint:[a-z0-9,]+ // \S`)

var nolintlintAnalyzer = &analysis.Analyzer{Name: "nolintlint", Doc: "comments //nolint without a linter or a reason",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, file := range pass.Files {
			for _, group := range file.Comments {
				for _, c := range group.List {
					if strings.HasPrefix(c.Text, "//nolint") && !explained.MatchString(c.Text) {
						pass.Reportf(c.Pos(), "write //nolint:LINTER // why")
					}
				}
			}
		}
		return nil, nil
	}}

// The lengths that CONTRIBUTING.md and revive's rules in .golangci.yaml give.
const (
	functionLines = 80
	fileLines     = 600
)

var lengthAnalyzer = &analysis.Analyzer{Name: "length", Doc: "functions and files that are too long",
	Run: func(pass *analysis.Pass) (any, error) {
		lines := func(n ast.Node) int {
			return pass.Fset.Position(n.End()).Line - pass.Fset.Position(n.Pos()).Line - 1
		}
		for _, file := range pass.Files {
			if n := pass.Fset.File(file.FileStart).LineCount() - 1; n > fileLines {
				pass.Reportf(file.FileStart, "file length is %d lines, which exceeds the limit of %d", n, fileLines)
			}
		}
		return nil, inspect(pass, func(n ast.Node) {
			if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil && lines(f.Body) > functionLines {
				pass.Reportf(f.Pos(), "function-length: %s has %d lines, more than %d", f.Name, lines(f.Body),
					functionLines)
			}
		})
	}}

// commentAnalyzer knows the methods that others have documented, in interfaces of the standard
// library. The names of main packages are exported to nobody.
var commentAnalyzer = &analysis.Analyzer{Name: "comment", Doc: "exported names without a comment",
	Run: func(pass *analysis.Pass) (any, error) {
		missing := func(at *ast.Ident, kind, name string, docs ...*ast.CommentGroup) {
			test := strings.HasSuffix(pass.Fset.Position(at.Pos()).Filename, "_test.go")
			if at.IsExported() && !test && cmp.Or(docs...) == nil {
				pass.Reportf(at.Pos(), "exported %s %s should have comment or be unexported", kind, name)
			}
		}
		for _, file := range pass.Files {
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil {
						missing(d.Name, "function", d.Name.Name, d.Doc)
					} else if of := receiver(d); ast.IsExported(of) && !documented[d.Name.Name] {
						missing(d.Name, "method", of+"."+d.Name.Name, d.Doc)
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						switch spec := spec.(type) {
						case *ast.TypeSpec:
							missing(spec.Name, "type", spec.Name.Name, d.Doc, spec.Doc)
						case *ast.ValueSpec:
							missing(spec.Names[0], d.Tok.String(), spec.Names[0].Name, d.Doc, spec.Doc, spec.Comment)
						}
					}
				}
			}
		}
		return nil, nil
	}}

var documented = map[string]bool{
	"Error": true, "Len": true, "Less": true, "Read": true, "ServeHTTP": true, "String": true, "Swap": true,
	"Unwrap": true, "Write": true,
}

// receiver returns the name of the type whose method a function is.
func receiver(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func inspect(pass *analysis.Pass, visit func(ast.Node)) error {
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
	return nil
}
