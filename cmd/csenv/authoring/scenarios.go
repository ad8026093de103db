// Package authoring lists, shows and checks scenarios for those who write and review them.
package authoring

import (
	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
)

func NewScenariosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                        "scenarios",
		Aliases:                    []string{"scenario"},
		Short:                      "List, show and lint tickets and workflows",
		SuggestionsMinimumDistance: 2,
		Args:                       cli.KnownCommand, RunE: func(cmd *cobra.Command,
			_ []string) error {
			return cmd.Help()
		},
	}
	cli.Help(cmd, "scenarios")
	cmd.AddCommand(newListCommand(), newShowCommand(), newLintCommand())
	return cmd
}
