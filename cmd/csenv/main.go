// Command csenv is csenv's command line: for people who look at scenarios, play them and read scores.
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
	"syscall"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/spf13/cobra"
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
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	switch err := cmd.ExecuteContext(ctx); {
	case err == nil:
		return exitDone
	case errors.Is(err, errOutcome):
		return exitOutcome
	default:
		fmt.Fprintln(errs, "error:", err)
		return exitError
	}
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "csenv",
		Short: "Look at customer-support scenarios and at what agents make of them",
		Long: `Look at customer-support scenarios and at what agents make of them.

Exit codes:
  0  done
  1  done, and the outcome is not the one asked for: a linter has findings
  2  not done: a wrong flag, a file that can't be read, a server that can't be reached`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(newScenariosCommand(), newRegradeCommand(), newVersionCommand())
	return cmd
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
