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
	tickets "github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/scenarios"
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
	return r, r.gradeReferences(ctx, c)
}

// gradedSeeds is the number of instances of each ticket whose good replies are graded.
const gradedSeeds = 8

// gradeReferences grades the first good reply of tickets, and reports those that lose points, at
// their first seed.
func (r *report) gradeReferences(ctx context.Context, c *scenarios.Catalog) error {
	judge := offline.New()
	for _, s := range c.Tickets() {
		for seed := range int64(gradedSeeds) {
			t, err := s.Instantiate(seed)
			if err != nil {
				break // a finding of the rule instance
			}
			t.References.Good = t.References.Good[:1] // which the oracle sends; others may tell less
			_, faults, err := tickets.Prove(ctx, t, judge)
			if err != nil {
				return err
			}
			for _, fault := range faults {
				r.Findings = append(r.Findings, finding{s.File, "reference",
					fmt.Sprintf("%s, at seed %d", fault, seed)})
			}
			if len(faults) > 0 {
				break
			}
		}
	}
	return nil
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
