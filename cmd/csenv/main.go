// Command csenv is csenv's command line: it evaluates agents on this machine and in a cluster, and
// shows the results.
//
// Output for people goes to standard output and is at most 100 columns wide; progress and errors go
// to standard error. The exit code distinguishes three ends: done, done with another outcome than
// the one asked for, and not done.
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
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/authoring"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/episodes"
	"github.com/csenv/csenv/cmd/csenv/evaluate"
	"github.com/csenv/csenv/cmd/csenv/export"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/ui"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/scenarios"
)

// version is set by the linker.
var version = "dev"

// moreCommands are the commands that builds with a tag add.
var moreCommands []func() *cobra.Command

// The exit codes.
const (
	exitDone    = 0
	exitOutcome = 1 // such as findings of a linter
	exitError   = 2
)

// programs are the other programs in this file, by the name by which they are called.
var programs map[string]func(version string)

func main() {
	if run, ok := programs[filepath.Base(os.Args[0])]; ok {
		run(version)
		return
	}
	cli.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	context.AfterFunc(ctx, stop) // a second signal ends what doesn't heed the first
	code := runWith(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// stopSignals are the signals after which a command ends in order. A hang-up is none below nohup.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// runWith runs the command and returns its exit code.
func runWith(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	cmd := newCommand(commandName(os.Args[0]))
	cmd.SetArgs(args)
	cmd.SetIn(in)
	kept := &view.StickyWriter{To: out}
	cmd.SetOut(kept)
	cmd.SetErr(errs)
	err := cmd.ExecuteContext(ctx)
	if kept.Err != nil {
		err = fmt.Errorf("writing to standard output: %w", kept.Err)
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, cli.ErrOutcome):
		return exitOutcome
	default:
		fmt.Fprintln(errs, "error:", printable.EscapeText(err.Error()))
		return exitError
	}
}

// pluginPrefix starts the file names of kubectl plugins.
const pluginPrefix = "kubectl-"

// commandName returns the name of the program in help texts.
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
		SilenceUsage: true, SilenceErrors: true, Version: cli.Version, PersistentPreRunE: cli.TidyLists,
	}
	cmd.SetUsageFunc(cli.WriteUsage)
	cmd.SetFlagErrorFunc(cli.PlainFlagError)
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"On this machine:", []*cobra.Command{evaluate.NewEvalCommand(), evaluate.NewServeCommand(),
			evaluate.NewBenchCommand()}},
		{"In a cluster:", []*cobra.Command{evaluate.NewRunCommand(), cluster.NewEnvCommand(),
			cluster.NewDoctorCommand()}},
		{"Runs and their episodes:", []*cobra.Command{
			ui.NewUICommand(), figures.NewRunsCommand(), figures.NewResultsCommand(), episodes.NewEpisodesCommand(),
			episodes.NewTranscriptCommand(), episodes.NewReplayCommand(), export.NewExportCommand(),
			figures.NewCompareCommand(), figures.NewLeaderboardCommand(),
			episodes.NewRegradeCommand(),
		}},
		{"Other:", []*cobra.Command{authoring.NewScenariosCommand(), authoring.NewJudgeCommand(), newVersionCommand()}},
	} {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			cmd.AddCommand(c)
		}
	}
	for _, more := range moreCommands {
		cmd.AddCommand(more())
	}
	cmd.SetHelpCommandGroupID("Other:")
	cmd.SetCompletionCommandGroupID("Other:")
	renameProgram(cmd, name)
	cli.ReadDecimals(cmd)
	return cmd
}

// renameProgram replaces the name of the program in examples and descriptions.
func renameProgram(cmd *cobra.Command, name string) {
	if name == "csenv" {
		return
	}
	cmd.Example = strings.NewReplacer("  csenv ", "  "+name+" ", "| csenv ", "| "+name+" ", "... csenv ",
		"... "+name+" ").Replace(cmd.Example)
	cmd.Long = strings.ReplaceAll(cmd.Long, "`csenv ", "`"+name+" ")
	for _, c := range cmd.Commands() {
		renameProgram(c, name)
	}
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of csenv, its grader and its built-in scenarios",
		Args:  cobra.NoArgs,
	}
	output := view.FormatFlag(cmd.Flags(), "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := scenarios.LoadPublic()
		if err != nil {
			return err
		}
		platform, pack := runtime.GOOS+"/"+runtime.GOARCH, c.Packs()[0]
		if output.Name != "text" {
			return output.Encode(cmd.OutOrStdout(), view.Object{"csenv", cli.Version, "go", runtime.Version(),
				"platform", platform, "grader", grader.GraderVersion, "judge", offline.New().Name(),
				"scenarios", pack.Name, "scenariosVersion", pack.Version, "scenarioDigest", c.Digest()})
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "csenv      %s (%s, %s)\n", cli.Version, runtime.Version(), platform)
		fmt.Fprintf(out, "grader     %s, judge %s\n", grader.GraderVersion, offline.New().Name())
		fmt.Fprintf(out, "scenarios  %s %d, %s\n", pack.Name, pack.Version, c.Digest())
		return nil
	}
	return cmd
}
