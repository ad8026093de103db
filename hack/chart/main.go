// Command chart generates the templates of charts/csenv from the kustomizations in config, so that
// both install the same objects.
//
//	go run -C hack/chart .
//
// It is a separate module, because the tests of the chart depend on Helm. `go tool helm` runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// root is the repository, chartFolder the chart, both seen from this folder.
const (
	root        = "../.."
	chartFolder = root + "/charts/csenv"
)

func main() {
	if err := write(filepath.Join(chartFolder, "templates")); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	templates, err := generate()
	if err != nil {
		return err
	}
	for name, text := range templates {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil { //nolint:gosec // public
			return err
		}
	}
	return nil
}
