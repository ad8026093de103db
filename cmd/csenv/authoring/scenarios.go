// Package authoring lists, shows and checks scenarios for those who write and review them.
package authoring

import (
	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
)

func NewScenariosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenarios",
		Aliases: []string{"scenario"},
		Short:   "List, show and lint tickets and workflows",
		Long: `List, show and lint tickets and workflows: the built-in ones and those of packs of your own.

How to write scenarios is in docs/scenarios.md.`,
		SuggestionsMinimumDistance: 2,
		Args:                       cli.KnownCommand, RunE: func(cmd *cobra.Command,
			_ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newListCommand(), newShowCommand(), newLintCommand())
	return cmd
}
