// Package guides reads the commands of docs/guides and README.md. Its test runs them as a reader
// does and compares their output with the pages; the end-to-end suite runs the guides' commands
// that need a cluster.
//
// A fence of the language sh is executed. One that can't run everywhere has a second word: what it
// needs. The blocks of the word cluster run in the end-to-end suite. A fence of the language text
// that follows an executed one has its standard output. `go test ./hack/guides -update` writes it.
package guides

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Cluster is the word of a block that needs a cluster with the operator.
const Cluster = "cluster"

var fence = regexp.MustCompile("(?ms)^```(\\w+)( \\w+)?\n(.*?)^```$")

// Block is a fence of a page.
type Block struct {
	// Language is sh or text, for example, and Why the second word or "".
	Language, Why string
	// Start and End are the place of the text in the page, in bytes.
	Start, End int
}

// ParseBlocks returns the fences of a page in their order.
func ParseBlocks(page string) []Block {
	places := fence.FindAllStringSubmatchIndex(page, -1)
	found := make([]Block, len(places))
	for i, at := range places {
		found[i] = Block{Language: page[at[2]:at[3]], Start: at[6], End: at[7]}
		if at[4] >= 0 {
			found[i].Why = strings.TrimSpace(page[at[4]:at[5]])
		}
	}
	return found
}

// MakeCheckout makes a folder look like a checkout with built programs, which are given by their
// names.
func MakeCheckout(folder, root string, programs map[string]string) error {
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o750); err != nil {
		return fmt.Errorf("making a checkout: %w", err)
	}
	for name, file := range programs {
		if err := os.Symlink(file, filepath.Join(folder, "bin", name)); err != nil {
			return fmt.Errorf("making a checkout: %w", err)
		}
	}
	for _, name := range []string{"config", "examples", "scenarios", "Makefile", "go.mod", "hack"} {
		from, err := filepath.Abs(filepath.Join(root, name))
		if err == nil {
			err = os.Symlink(from, filepath.Join(folder, name))
		}
		if err != nil {
			return fmt.Errorf("making a checkout: %w", err)
		}
	}
	return nil
}
