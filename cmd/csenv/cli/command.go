// Package cli holds what the commands share: arguments, completion, packs of scenarios and files.
package cli

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csenv/csenv/scenarios/source"
)

// IsAmong reports whether wanted contains a value or is empty.
func IsAmong(wanted []string, value string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, value) })
}

// CheckPlayed reports a value of a filter that no episode has, which is probably misspelt. Who says
// whose episodes these are, such as "run gpt has"; played has the values in lower case.
func CheckPlayed(who, what string, wanted []string, played map[string]bool) error {
	for _, value := range wanted {
		if !played[strings.ToLower(value)] {
			return fmt.Errorf("%s no episode of %s %q: choose one of %s", who, what, value,
				strings.Join(slices.Sorted(maps.Keys(played)), ", "))
		}
	}
	return nil
}

// Version is the version of csenv, which main sets.
var Version = "dev"

// ErrOutcome makes the program exit with code 1. The command has printed the reason.
var ErrOutcome = errors.New("the outcome is not the one asked for")

// PlainFlagError replaces the parser's message for unknown flags, invalid numbers and durations.
func PlainFlagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return fmt.Errorf("%w%s: see `%s --help`", err, nearFlag(cmd, unknown.GetSpecifiedName()), cmd.CommandPath())
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	switch f := invalid.GetFlag(); f.Value.Type() {
	case "int", "int32", "int64", "uint":
		return fmt.Errorf("--%s is %q: give a whole number such as 42", f.Name, invalid.GetValue())
	case "duration":
		return fmt.Errorf("--%s is %q: give a duration such as 30s or 5m", f.Name, invalid.GetValue())
	}
	return err
}

// TidyLists removes the blanks around the values of flags that are lists, and refuses an empty
// value: it often comes from a variable that isn't set, and would select everything.
func TidyLists(cmd *cobra.Command, _ []string) error {
	var faults []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			return
		}
		values := list.GetSlice()
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if len(values) == 0 || slices.Contains(values, "") {
			faults = append(faults, fmt.Errorf("--%s has an empty value: give it one, or leave the flag out", f.Name))
		} else if err := list.Replace(values); err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", f.Name, err))
		}
	})
	return errors.Join(faults...)
}

// decimal is the value of a flag that is a whole number. The parser's own would read 010 as 8.
type decimal struct{ pflag.Value }

// Set accepts a decimal number.
func (d decimal) Set(text string) error {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return errors.New("no decimal number")
	}
	return d.Value.Set(n.String())
}

// ReadDecimals has the flags of a command and of its subcommands read whole numbers as decimals.
func ReadDecimals(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int32", "int64", "uint":
			f.Value = decimal{f.Value}
		}
	})
	for _, c := range cmd.Commands() {
		ReadDecimals(c)
	}
}

// nearFlag suggests the flag of the command that is nearest to a misspelt one.
func nearFlag(cmd *cobra.Command, name string) string {
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := source.NearestWord(name, known); near != "" {
		return ": did you mean --" + near + "?"
	}
	return ""
}

// CalledAs returns how the user calls the program: csenv, or its path below this folder.
func CalledAs() string {
	if called := os.Args[0]; filepath.IsLocal(called) && filepath.Base(called) == "csenv" {
		return called
	}
	return "csenv"
}

// RequireArguments accepts exactly the named arguments.
func RequireArguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			name, hint := names[len(args)], ""
			if slices.Contains([]string{"RUN", "A", "B"}, name) {
				hint = "`csenv runs` lists the runs; "
			}
			return fmt.Errorf("missing argument %s: %ssee `%s --help`", name, hint, cmd.CommandPath())
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q: see `%s --help`", args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

// GroupCommands makes a command print its help, and adds subcommands.
func GroupCommands(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = knownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// knownCommand rejects unknown subcommands, which cobra does only for the root command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see `" + cmd.CommandPath() + " --help`"
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	if near := source.NearestWord(args[0], known); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fmt.Errorf("%s has no command %q: %s", cmd.CommandPath(), args[0], hint)
}

// CompleteFlag registers the completion values of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	CompleteFlagFrom(cmd, flag, func() []string { return values })
}

// CompleteFlagFrom registers the completion values of a flag that are only known once it is used.
func CompleteFlagFrom(cmd *cobra.Command, flag string, values func() []string) {
	// This can't fail: the flag exists and has no other completion.
	_ = cmd.RegisterFlagCompletionFunc(flag,
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return values(), cobra.ShellCompDirectiveNoFileComp
		})
}
