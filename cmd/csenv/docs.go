//go:build docs

package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// docsCommand writes man pages and completions into a folder. Releases have them, and the program
// hasn't what makes them: only builds with the tag docs have the command.
func docsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "docs FOLDER",
		Short:  "Write man pages and completions into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			man, completions := filepath.Join(args[0], "man"), filepath.Join(args[0], "completions")
			for _, dir := range []string{man, completions} {
				if err := os.MkdirAll(dir, 0o750); err != nil {
					return err
				}
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return errors.Join(
				root.GenBashCompletionFileV2(filepath.Join(completions, "csenv.bash"), true),
				root.GenZshCompletionFile(filepath.Join(completions, "csenv.zsh")),
				root.GenFishCompletionFile(filepath.Join(completions, "csenv.fish"), true),
				doc.GenManTree(root, &doc.GenManHeader{Source: "csenv " + version, Manual: "csenv"}, man))
		},
	}
}

func init() { moreCommands = append(moreCommands, docsCommand) }
