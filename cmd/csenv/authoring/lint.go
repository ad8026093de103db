package authoring

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/audit"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios/pack"
)

// report is the JSON output of lint. Scores are in thousandths.
type report struct {
	Tickets   int       `json:"tickets"`
	Workflows int       `json:"workflows"`
	Findings  []finding `json:"findings"`
	// Distribution counts the tickets at seed 0.
	Distribution []audit.Marginal `json:"distribution,omitempty"`
	// Declared and Keywords are the scores of shortcuts with the declared cues and with keywords.
	Declared []audit.Figures `json:"shortcuts_by_declared_cue,omitempty"`
	Keywords []audit.Figures `json:"shortcuts_by_keywords,omitempty"`
	// Queues are the scores of strategies on the queues.
	Queues []audit.QueueFigures `json:"queues,omitempty"`
	// Sequences are the scores of fixed sequences of actions on the workflows.
	Sequences []audit.SequenceRow `json:"sequences,omitempty"`
}

type finding struct {
	Position string `json:"position"`
	Rule     string `json:"rule"`
	Message  string `json:"message"`
}

func newLintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint [DIR...]",
		Short: "Check scenarios and print the scores of shortcuts",
	}
	cli.Help(cmd, "lint")
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "text", "json")
	cmd.RunE = func(cmd *cobra.Command, dirs []string) error {
		for _, dir := range slices.Concat(*packs, dirs) {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return fmt.Errorf("%s is not a folder that can be read: name one with tickets, workflows, kb and "+
					"names, or with the files of a pack", dir)
			}
		}
		r, err := lint(cmd.Context(), *packs, dirs, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if output.Name == "json" {
			err = output.Encode(cmd.OutOrStdout(), r)
		} else {
			r.print(cmd.OutOrStdout())
		}
		if err == nil && len(r.Findings) > 0 {
			err = cli.ErrOutcome
		}
		return err
	}
	return cmd
}

// lint checks the scenarios of the folders. The packs only provide what those share.
func lint(ctx context.Context, packs, dirs []string, progress io.Writer) (*report, error) {
	c, err := cli.LoadCatalog(slices.Concat(packs, dirs))
	if err != nil {
		return &report{Findings: faults(err)}, nil
	}
	if len(dirs) > 0 {
		c = c.Only(func(p pack.Info) bool { return slices.Contains(dirs, p.Folder) })
	}
	r := &report{Tickets: len(c.Tickets()), Workflows: len(c.Workflows()), Findings: []finding{}}
	faulty, err := c.Lint(ctx, progressLine(progress))
	if err != nil {
		return nil, err
	}
	for _, f := range faulty {
		r.Findings = append(r.Findings, finding(f))
	}
	found, err := audit.Lint(c)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		r.Findings = append(r.Findings, finding(f))
	}
	if r.Distribution, err = audit.Distribution(c); err != nil {
		return nil, err
	}
	if r.Declared, err = audit.Tickets(c, audit.Declared(c), 0); err != nil {
		return nil, err
	}
	if r.Keywords, err = audit.Tickets(c, audit.Keywords, 0); err != nil {
		return nil, err
	}
	if r.Queues, err = audit.Queues(c, audit.Declared(c), 0); err != nil || len(c.Workflows()) == 0 {
		return r, err
	}
	r.Sequences, err = audit.Workflows(c, offline.New(), 0)
	return r, err
}

// faults converts the errors of loading to findings.
func faults(err error) []finding {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	return view.Each(all, func(err error) finding {
		position, message, ok := strings.Cut(err.Error(), ": ")
		if !ok {
			position, message = "", err.Error()
		}
		return finding{position, "load", message}
	})
}

// progressLine returns a progress bar on a terminal, otherwise nil.
func progressLine(w io.Writer) func(done, total int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		if bar == nil {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w),
				progressbar.OptionSetDescription("linting"), progressbar.OptionShowCount(),
				progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		}
		_ = bar.Set(done) // a bar that can't be drawn is no failure
	}
}

func (r *report) print(w io.Writer) {
	for _, f := range r.Findings {
		line := fmt.Sprintf("%s: %s (%s)", f.Position, f.Message, f.Rule)
		for i, part := range strings.Split(text.WrapSoft(line, view.Width-4), "\n") {
			fmt.Fprintln(w, strings.TrimRight(strings.Repeat(" ", 4*min(i, 1))+part, " "))
		}
	}
	if len(r.Distribution) > 0 {
		fmt.Fprintf(w, "\nDistribution of the tickets at seed 0\n\n%s\n", distributionTable(r.Distribution).Render())
	}
	if len(r.Declared) > 0 {
		fmt.Fprintf(w, "\nScores of shortcuts on the tickets at seed 0, with the declared cues\n\n%s\n",
			figuresTable(r.Declared).Render())
		fmt.Fprintf(w, "\nThe same with keywords as cues, over all wordings\n\n%s\n",
			figuresTable(r.Keywords).Render())
	}
	if len(r.Queues) > 0 {
		fmt.Fprintf(w, "\nScores of strategies on the queues, with the declared cues\n\n%s\n",
			queuesTable(r.Queues).Render())
	}
	if len(r.Sequences) > 0 {
		fmt.Fprintf(w, "\nScores of fixed sequences of actions on the workflows at seed 0\n\n%s\n",
			sequencesTable(r.Sequences).Render())
	}
	fmt.Fprintf(w, "\n%s and %s: %s\n", view.Count(r.Tickets, "ticket"), view.Count(r.Workflows, "workflow"),
		view.Count(len(r.Findings), "finding"))
}

func distributionTable(rows []audit.Marginal) table.Writer {
	short := map[string]string{
		"billing": "bill", "shipping": "ship", "technical": "tech", "general": "gen", "medium": "med", "urgent": "urg",
		"escalate": "esc", "resolve": "res", "premium": "prem", "enterprise": "ent",
	}
	header := append(make([]string, 0, 1+len(audit.Columns())), "")
	for _, c := range audit.Columns() {
		if s, ok := short[c]; ok {
			c = s
		}
		header = append(header, c)
	}
	t := view.NewTable(header...)
	for _, m := range rows {
		row := append(make(table.Row, 0, 1+len(audit.Columns())), m.Of)
		for _, c := range audit.Columns() {
			row = append(row, m.Counts[c])
		}
		t.AppendRow(row)
	}
	return t
}

func queuesTable(rows []audit.QueueFigures) table.Writer {
	t := view.NewTable("strategy", "raw", "of the best")
	for _, f := range rows {
		t.AppendRow(table.Row{f.Policy, view.Thousandths(f.Raw), view.Thousandths(f.Relative)})
	}
	return t
}

func sequencesTable(rows []audit.SequenceRow) table.Writer {
	t := view.NewTable("sequence", "all facts", "passed", "copied fields", "passed")
	for _, s := range rows {
		t.AppendRow(table.Row{s.Policy, view.Thousandths(s.UpperBound.Score), s.UpperBound.Passed,
			view.Thousandths(s.Template.Score), s.Template.Passed})
	}
	return t
}

func figuresTable(rows []audit.Figures) table.Writer {
	t := view.NewTable("policy", "cls", "prio", "esc", "classify", "rules")
	for _, f := range rows {
		t.AppendRow(table.Row{f.Policy, view.Thousandths(f.Category), view.Thousandths(f.Priority),
			view.Thousandths(f.Escalation), view.Thousandths(f.Classify), view.Thousandths(f.Rules)})
	}
	return t
}
