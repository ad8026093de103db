package authoring

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/scenarios/pack"
)

// report is the JSON output of lint.
type report struct {
	Tickets   int       `json:"tickets"`
	Workflows int       `json:"workflows"`
	Findings  []finding `json:"findings"`
}

type finding struct {
	Position string `json:"position"`
	Rule     string `json:"rule"`
	Message  string `json:"message"`
}

func newLintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint [DIR...]",
		Short: "Check scenarios",
	}
	cli.SetHelp(cmd, "lint")
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "text", "json")
	cmd.RunE = func(cmd *cobra.Command, dirs []string) error {
		for _, dir := range slices.Concat(*packs, dirs) {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return fmt.Errorf("%s is not a folder that can be read: name one with tickets, workflows, kb and "+
					"names, or with the files of a pack", dir)
			}
		}
		r, err := lintScenarios(cmd.Context(), *packs, dirs, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return printFindings(cmd.OutOrStdout(), output, r, len(r.Findings))
	}
	return cmd
}

// printFindings prints a report, and fails if it has findings.
func printFindings(w io.Writer, output *view.Format, r interface{ print(w io.Writer) }, findings int) error {
	if output.Name == "json" {
		if err := output.Encode(w, r); err != nil {
			return err
		}
	} else {
		r.print(w)
	}
	if findings > 0 {
		return cli.ErrOutcome
	}
	return nil
}

// lintScenarios checks the scenarios of the folders. The packs only provide what those share.
func lintScenarios(ctx context.Context, packs, dirs []string, progress io.Writer) (*report, error) {
	c, err := cli.LoadCatalog(slices.Concat(packs, dirs))
	if err != nil {
		return &report{Findings: listFaults(err)}, nil
	}
	if len(dirs) > 0 {
		c = c.Only(func(p pack.Info) bool { return slices.Contains(dirs, p.Folder) })
	}
	found, err := c.Lint(ctx, progressBar(progress, "linting"))
	if err != nil {
		return nil, err
	}
	r := &report{Tickets: len(c.Tickets()), Workflows: len(c.Workflows()), Findings: []finding{}}
	for _, f := range found {
		r.Findings = append(r.Findings, finding(f))
	}
	return r, nil
}

// listFaults converts the errors of loading to findings.
func listFaults(err error) []finding {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	return view.MapItems(all, func(err error) finding {
		if position, message, ok := strings.Cut(err.Error(), ": "); ok {
			return finding{position, "load", message}
		}
		return finding{"", "load", err.Error()}
	})
}

// progressBar returns a function that draws a progress bar. It draws nothing if w isn't a terminal.
func progressBar(w io.Writer, what string) func(done, total int) {
	if !view.IsTerminal(w) {
		return func(int, int) {}
	}
	bar := view.NewBar(w)
	return func(done, total int) {
		if bar.Draw(what, int64(done), int64(total), time.Now()); done == total {
			bar.Clear()
		}
	}
}

func (r *report) print(w io.Writer) {
	for _, f := range r.Findings {
		line := fmt.Sprintf("%s: %s (%s)", f.Position, f.Message, f.Rule)
		for i, part := range strings.Split(text.WrapSoft(printable.EscapeText(line), view.Width-4), "\n") {
			fmt.Fprintln(w, strings.TrimRight(strings.Repeat(" ", 4*min(i, 1))+part, " "))
		}
	}
	fmt.Fprintf(w, "%s and %s: %s\n", view.FormatCount(r.Tickets, "ticket"), view.FormatCount(r.Workflows, "workflow"),
		view.FormatCount(len(r.Findings), "finding"))
}
