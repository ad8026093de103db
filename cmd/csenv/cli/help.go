package cli

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed help/*.txt
var helpTexts embed.FS

// SetHelp sets the description and the examples of a command from help/NAME.txt.
func SetHelp(cmd *cobra.Command, name string) {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // the files are embedded
	}
	long, examples, _ := strings.Cut(string(text), "\nExamples:\n")
	cmd.Long, cmd.Example = strings.TrimSpace(long), strings.TrimRight(examples, "\n")
}
