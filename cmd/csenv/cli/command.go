// Package cli holds what the commands share: arguments, completion, packs of scenarios and files.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Among reports whether a value is one of the wanted ones, if any are.
func Among(wanted []string, value string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, value) })
}

// Version is the version of csenv, which main sets.
var Version = "dev"

// ErrOutcome ends the command with exitOutcome. What is to be said about it has been said.
var ErrOutcome = errors.New("the outcome is not the one asked for")

// PlainFlagError says what a flag for numbers takes, in place of the parser's words.
func PlainFlagError(_ *cobra.Command, err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	switch f := invalid.GetFlag(); f.Value.Type() {
	case "int", "int64":
		return fmt.Errorf("--%s is %q: give a whole number such as 42", f.Name, invalid.GetValue())
	case "duration":
		return fmt.Errorf("--%s is %q: give a duration such as 30s or 5m", f.Name, invalid.GetValue())
	}
	return err
}

// Arguments accepts exactly the named arguments.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("missing argument %s: see `%s --help`", names[len(args)], cmd.CommandPath())
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q: see `%s --help`", args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

// KnownCommand refuses a misspelt command, which cobra alone does for the root only.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see `" + cmd.CommandPath() + " --help`"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return fmt.Errorf("%s has no command %q: %s", cmd.CommandPath(), args[0], hint)
}

// Complete completes a flag by a list of values.
func Complete(cmd *cobra.Command, flag string, values func() []string) {
	// The flag exists and has no other completion, so that this can't fail.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
}
