// Command lint is the tool of `go vet` with which `make lint` checks every change. Its analysers are
// those of golangci-lint's set in .golangci.yaml that cost little to build and to run; `make
// lint-deep` runs the others. Its rules are those of .golangci.yaml, so both see the same ones.
package main

import (
	"flag"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	config := new(config)
	// The rules are passed as text because the go command stores results by the flags of the tool: the
	// name of a file would hide a change of the file.
	flag.Var(config, "config", "the text of .golangci.yaml")
	var all []*analysis.Analyzer
	for linter, analyzers := range suite(config) {
		for _, a := range analyzers {
			all = append(all, config.filtered(linter, a))
		}
	}
	unitchecker.Main(all...)
}
