// Package authoring lists, shows and checks scenarios for authors and reviewers.
package authoring

import (
	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
)

// NewScenariosCommand returns the command with the subcommands about scenarios.
func NewScenariosCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "scenarios", Aliases: []string{"scenario"},
		Short: "List, show and lint tickets and workflows"}
	cli.SetHelp(cmd, "scenarios")
	return cli.GroupCommands(cmd, newListCommand(), newShowCommand(), newLintCommand(), newProveCommand(),
		newGenerateCommand())
}
