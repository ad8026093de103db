// Command lint is the tool of `go vet` with which `make lint` checks every change. Its analysers
// are the part of golangci-lint's set in .golangci.yaml that costs little to build and to run;
// `make lint-deep` runs the others. Both read their rules from .golangci.yaml.
package main

import (
	"encoding/gob"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	config := new(config)
	// The rules are passed as text because the go command stores results by the flags of the tool:
	// the name of a file would hide a change of the file.
	flag.Var(config, "config", "the text of .golangci.yaml")
	var all []*analysis.Analyzer
	linters := listAnalyzers(config)
	for _, linter := range slices.Sorted(maps.Keys(linters)) {
		for _, a := range linters[linter] {
			all = append(all, config.filtered(linter, a))
		}
	}
	if unit := os.Args[len(os.Args)-1]; isDependency(unit) {
		unitchecker.Run(unit, facts(all))
	}
	unitchecker.Main(all...)
}

// isDependency says whether the go command wants nothing but the types and facts of a package.
func isDependency(unit string) bool {
	if filepath.Ext(unit) != ".cfg" {
		return false
	}
	var u struct{ VetxOnly bool }
	text, err := os.ReadFile(unit)
	return err == nil && json.Unmarshal(text, &u) == nil && u.VetxOnly
}

// facts returns the analysers that tell others about dependencies: functions that format, that
// never return, that are deprecated, and enumerations. The library would run those that only read
// such facts, too. Those with staticcheck's intermediate representation are left out because it
// costs a minute, for facts about which functions of dependencies are pure or return nil.
func facts(all []*analysis.Analyzer) []*analysis.Analyzer {
	var found []*analysis.Analyzer
	seen := map[*analysis.Analyzer]bool{}
	var visit func(a *analysis.Analyzer) (costly bool)
	visit = func(a *analysis.Analyzer) bool {
		costly := a.Name == "buildir"
		for _, required := range a.Requires {
			costly = visit(required) || costly
		}
		for _, fact := range a.FactTypes {
			gob.Register(fact) // Packages of the module that have no tests hold those that are left out.
		}
		if len(a.FactTypes) > 0 && !costly && !seen[a] {
			found = append(found, a)
		}
		seen[a] = true
		return costly
	}
	for _, a := range all {
		visit(a)
	}
	return found
}
