package main

import (
	"fmt"
	"go/ast"
	"go/types"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/OpenPeeDeeP/depguard/v2"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/gostaticanalysis/nilerr"
	"github.com/julz/importas"
	"github.com/nishanths/exhaustive/passes/exhaustive"
	"github.com/sonatard/noctx"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/atomicalign"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/deepequalerrors"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpmux"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/modernize"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/reflectvaluecompare"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/sortslice"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/quickfix"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
)

// listAnalyzers returns the analysers by the names that golangci-lint has for them, which comments
// `//nolint:NAME` and exclusions use.
func listAnalyzers(c *config) map[string][]*analysis.Analyzer {
	return map[string][]*analysis.Analyzer{
		"bodyclose":   {bodyclose.Analyzer},
		"depguard":    {depguardAnalyzer(c)},
		"errcheck":    {errcheckAnalyzer},
		"errorlint":   {setFlag(errorlint.NewAnalyzer(), "errorf", "true")},
		"exhaustive":  {setFlag(exhaustive.Analyzer, "d", "true")},
		"forbidigo":   {forbidigoAnalyzer(c)},
		"govet":       vet,
		"importas":    {importasAnalyzer(c)},
		"ineffassign": {ineffassign.Analyzer},
		"modernize":   modernize.Suite,
		"nilerr":      {nilerr.Analyzer},
		"noctx":       {noctx.Analyzer},
		"nolintlint":  {nolintlintAnalyzer},
		"revive":      {lengthAnalyzer, commentAnalyzer},
		"staticcheck": staticchecks(),
		"unconvert":   {unconvertAnalyzer},
		"unused":      {unusedAnalyzer},
	}
}

func depguardAnalyzer(c *config) *analysis.Analyzer {
	// The library takes its rules when it makes an analyser. There are none before flags are
	// parsed.
	return &analysis.Analyzer{Name: "depguard", Doc: "imports that the rules of depguard forbid",
		Run: func(pass *analysis.Pass) (any, error) {
			walls, err := depguard.NewAnalyzer(c.walls())
			if err != nil {
				return nil, fmt.Errorf("rules of depguard: %w", err)
			}
			return walls.Run(pass)
		}}
}

func forbidigoAnalyzer(c *config) *analysis.Analyzer {
	return &analysis.Analyzer{Name: "forbidigo", Doc: "names that the rules of forbidigo forbid",
		Run: func(pass *analysis.Pass) (any, error) {
			return nil, inspect(pass, func(n ast.Node) {
				name, ok := n.(*ast.SelectorExpr)
				if !ok {
					return
				}
				for _, rule := range c.Linters.Settings.Forbidigo.Forbid {
					if text := types.ExprString(name); rule.Pattern.MatchString(text) {
						pass.Reportf(n.Pos(), "use of %s is forbidden: %s", text, rule.Msg)
					}
				}
			})
		}}
}

func importasAnalyzer(c *config) *analysis.Analyzer {
	run := importas.Analyzer.Run
	importas.Analyzer.Run = func(pass *analysis.Pass) (any, error) {
		for _, a := range c.Linters.Settings.Importas.Alias {
			if err := importas.Analyzer.Flags.Set("alias", a.Pkg+":"+a.Alias); err != nil {
				return nil, err
			}
		}
		return run(pass)
	}
	return importas.Analyzer
}

// vet is go vet's passes without those for assembly and cgo, fieldalignment and shadow.
var vet = []*analysis.Analyzer{
	appends.Analyzer, assign.Analyzer, atomic.Analyzer, atomicalign.Analyzer, bools.Analyzer, buildtag.Analyzer,
	composite.Analyzer, copylock.Analyzer, deepequalerrors.Analyzer, defers.Analyzer, directive.Analyzer,
	errorsas.Analyzer, hostport.Analyzer, httpmux.Analyzer, httpresponse.Analyzer, ifaceassert.Analyzer,
	loopclosure.Analyzer, lostcancel.Analyzer, nilfunc.Analyzer, nilness.Analyzer, printf.Analyzer,
	reflectvaluecompare.Analyzer, shift.Analyzer, sigchanyzer.Analyzer, slog.Analyzer, sortslice.Analyzer,
	stdmethods.Analyzer, stdversion.Analyzer, stringintconv.Analyzer, structtag.Analyzer, testinggoroutine.Analyzer,
	tests.Analyzer, timeformat.Analyzer, unmarshal.Analyzer, unreachable.Analyzer, unsafeptr.Analyzer,
	unusedresult.Analyzer, unusedwrite.Analyzer, waitgroup.Analyzer,
}

// setFlag sets a flag of an analyser as golangci-lint and .golangci.yaml do.
func setFlag(a *analysis.Analyzer, flag, value string) *analysis.Analyzer {
	if err := a.Flags.Set(flag, value); err != nil {
		panic(err)
	}
	return a
}

// notDefault are the checks that golangci-lint's staticcheck leaves out by default: comments of
// packages and of exported names, names of receivers and packages.
var notDefault = map[string]bool{
	"ST1000": true, "ST1003": true, "ST1016": true, "ST1020": true, "ST1021": true, "ST1022": true,
}

func staticchecks() []*analysis.Analyzer {
	var checks []*analysis.Analyzer
	for _, list := range [][]*lint.Analyzer{
		staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers, quickfix.Analyzers,
	} {
		for _, check := range list {
			if !notDefault[check.Analyzer.Name] {
				checks = append(checks, check.Analyzer)
			}
		}
	}
	return checks
}
