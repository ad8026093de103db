package main

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// filtered makes an analyser keep silent in generated files, where a comment `//nolint:NAME` with
// the name of its linter stands, and where the config excludes it. It changes the analyser.
func (c *config) filtered(linter string, a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		filter := filter{config: c, linter: linter, pass: pass, files: map[*ast.File]*source{}}
		quiet := *pass
		quiet.Report = func(d analysis.Diagnostic) {
			if !filter.drops(d) {
				d.Message += " (" + linter + ")"
				pass.Report(d)
			}
		}
		return run(&quiet)
	}
	return a
}

type filter struct {
	config *config
	linter string
	pass   *analysis.Pass
	files  map[*ast.File]*source
}

// source is what the filter knows of a file: its lines, and where comments silence linters.
type source struct {
	lines   []string
	silence []silence
}

// silence is a comment `//nolint:NAME`. It covers its line and, if it has a line of its own, the
// node that begins below it in the same column.
type silence struct {
	linters        []string
	from, to, left int
}

var nolint = regexp.MustCompile(`^//nolint:([a-z0-9,]+)`)

func (f *filter) drops(d analysis.Diagnostic) bool {
	position := f.pass.Fset.Position(d.Pos)
	i := slices.IndexFunc(f.pass.Files, func(file *ast.File) bool {
		return file.FileStart <= d.Pos && d.Pos <= file.FileEnd
	})
	if i < 0 {
		return false
	}
	file := f.pass.Files[i]
	if ast.IsGenerated(file) {
		return true
	}
	if f.files[file] == nil {
		f.files[file] = readSource(f.pass.Fset, file)
	}
	s := f.files[file]
	line := ""
	if position.Line <= len(s.lines) {
		line = s.lines[position.Line-1]
	}
	return f.config.excludes(f.linter, position.Filename, d.Message, line) ||
		slices.ContainsFunc(s.silence, func(s silence) bool {
			return slices.Contains(s.linters, f.linter) && s.from <= position.Line && position.Line <= s.to
		})
}

func (c *config) excludes(linter, path, text, source string) bool {
	return slices.ContainsFunc(c.Linters.Exclusions.Rules, func(e exclusion) bool {
		return (len(e.Linters) == 0 || slices.Contains(e.Linters, linter)) &&
			e.Path.matches(path) && e.Text.matches(text) && e.Source.matches(source)
	})
}

func readSource(fset *token.FileSet, file *ast.File) *source {
	text, err := os.ReadFile(fset.Position(file.FileStart).Filename)
	if err != nil {
		return &source{}
	}
	s := &source{lines: strings.Split(string(text), "\n")}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if match := nolint.FindStringSubmatch(comment.Text); match != nil {
				at := fset.Position(comment.Pos())
				s.silence = append(s.silence, silence{strings.Split(match[1], ","), at.Line, at.Line, at.Column})
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil || len(s.silence) == 0 {
			return false
		}
		start, end := fset.Position(n.Pos()), fset.Position(n.End())
		for i, q := range s.silence {
			if (start.Line == q.from || start.Line == q.from+1) && start.Column == q.left {
				s.silence[i].to = max(q.to, end.Line)
			}
		}
		return true
	})
	return s
}
