// Command csenv is csenv's command line: it evaluates agents on one's own machine and in a cluster,
// and shows what came of it.
//
// What it prints for people goes to standard output and is at most 100 columns wide; progress and
// errors go to standard error. The exit code tells three outcomes apart: it is done, it is done and
// the outcome is not the one asked for, or it could not be done.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
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
	code := runWith(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// runWith runs the command and returns its exit code.
func runWith(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	cmd := newCommand(commandName(os.Args[0]))
	cmd.SetArgs(args)
	cmd.SetIn(in)
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

// pluginPrefix is what kubectl finds its plugins by: as kubectl-csenv the program is `kubectl
// csenv`.
const pluginPrefix = "kubectl-"

// commandName is how the program is called, by the name of its file.
func commandName(file string) string {
	if strings.HasPrefix(filepath.Base(file), pluginPrefix) {
		return "kubectl csenv"
	}
	return "csenv"
}

func newCommand(name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "csenv",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Short:       "Evaluate agents on customer-support tickets and workflows",
		Long: `Evaluate agents on customer-support tickets and workflows: on this machine, or in a cluster.

Exit codes:
  0  done
  1  done, and the outcome is not the one asked for: a run failed or missed a threshold, findings,
     an ungraded episode
  2  not done: a wrong flag, a file or a cluster that can't be read, output that can't be written`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages",
		".FlagUsagesWrapped "+strconv.Itoa(columns)))
	cmd.SetFlagErrorFunc(plainFlagError)
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"On this machine:", []*cobra.Command{newEvalCommand(), newPlayCommand(), newServeCommand(),
			newBenchCommand()}},
		{"In a cluster:", []*cobra.Command{newRunCommand(), newEnvCommand(), newDoctorCommand()}},
		{"Runs and their episodes:", []*cobra.Command{
			newResultsCommand(), newEpisodesCommand(), newTranscriptCommand(), newCompareCommand(),
			newLeaderboardCommand(), newReportCommand(), newRegradeCommand(),
		}},
		{"Other:", []*cobra.Command{newScenariosCommand(), newVersionCommand()}},
	} {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			cmd.AddCommand(c)
		}
	}
	cmd.SetHelpCommandGroupID("Other:")
	cmd.SetCompletionCommandGroupID("Other:")
	rename(cmd, name)
	return cmd
}

// rename has examples and texts call the program by its name.
func rename(cmd *cobra.Command, name string) {
	if name == "csenv" {
		return
	}
	cmd.Example = strings.NewReplacer("  csenv ", "  "+name+" ", "| csenv ", "| "+name+" ", "... csenv ",
		"... "+name+" ").Replace(cmd.Example)
	cmd.Long = strings.ReplaceAll(cmd.Long, "`csenv ", "`"+name+" ")
	for _, c := range cmd.Commands() {
		rename(c, name)
	}
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

// arguments is for a command that takes a number of arguments.
func arguments(n int, names, meaning string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return fmt.Errorf("%s takes %s, %s: there are %d arguments", cmd.CommandPath(), names, meaning, len(args))
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
