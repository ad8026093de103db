// Command csenv is csenv's command line: for people who look at scenarios and grade recorded episodes again.
//
// What it prints for people goes to standard output and is at most 100 columns wide; progress and errors go to standard error. The exit code tells three outcomes apart: it is
// done, it is done and the outcome is not the one asked for, or it could not be done.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the linker.
var version = "dev"

// The exit codes.
const (
	exitDone    = 0
	exitOutcome = 1 // such as findings of a linter
	exitError   = 2
)

// errOutcome ends the command with exitOutcome. What is to be said about it has been said.
var errOutcome = errors.New("the outcome is not the one asked for")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what doesn't heed the first
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	kept := &errorKeeper{to: out}
	cmd.SetOut(kept)
	cmd.SetErr(errs)
	err := cmd.ExecuteContext(ctx)
	if kept.err != nil {
		err = fmt.Errorf("writing to standard output: %w", kept.err)
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errOutcome):
		return exitOutcome
	default:
		fmt.Fprintln(errs, "error:", err)
		return exitError
	}
}

// errorKeeper keeps the first error of a writer, so that printing needn't look at it line by line.
type errorKeeper struct {
	to  io.Writer
	err error
}

func (k *errorKeeper) Write(p []byte) (int, error) {
	if k.err != nil {
		return 0, k.err
	}
	n, err := k.to.Write(p)
	k.err = err
	return n, err
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "csenv",
		Short: "Look at customer-support scenarios, and grade recorded episodes again",
		Long: `Look at customer-support scenarios, and grade recorded episodes again.

Exit codes:
  0  done
  1  done, and the outcome is not the one asked for: findings, or an ungraded episode
  2  not done: a wrong flag, a file that can't be read, output that can't be written`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped "+strconv.Itoa(columns)))
	cmd.SetFlagErrorFunc(plainFlagError)
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(newScenariosCommand(), newRegradeCommand(), newVersionCommand())
	return cmd
}

// plainFlagError says what a flag for numbers takes, in place of the parser's words.
func plainFlagError(_ *cobra.Command, err error) error {
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

// oneArgument is for a command that takes exactly one argument.
func oneArgument(name, meaning string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return fmt.Errorf("%s takes one %s, %s: there are %d", cmd.CommandPath(), name, meaning, len(args))
	}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of csenv, its grader and its built-in scenarios",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := scenarios.Public()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "csenv      %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintf(out, "grader     %s, judge %s\n", grader.GraderVersion, grader.NewOffline().Name())
			for _, p := range c.Packs() {
				fmt.Fprintf(out, "scenarios  %s %d, %s\n", p.Name, p.Version, c.Digest())
			}
			return nil
		},
	}
}
