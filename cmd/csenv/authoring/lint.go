package authoring

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/audit"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/pack"
)

// report is the JSON output of lint. Scores are in thousandths.
type report struct {
	Tickets   int       `json:"tickets"`
	Workflows int       `json:"workflows"`
	Findings  []finding `json:"findings"`
	// Distribution counts the tickets at seed 0.
	Distribution []audit.Marginal `json:"distribution,omitempty"`
	// Declared and Keywords are the scores of shortcuts, by their source of cues.
	Declared []audit.Figures      `json:"shortcuts_by_declared_cue,omitempty"`
	Keywords []audit.Figures      `json:"shortcuts_by_keywords,omitempty"`
	Queues   []audit.QueueFigures `json:"queues,omitempty"`
	// Sequences are the scores of fixed sequences of actions on the workflows.
	Sequences []audit.SequenceRow `json:"sequences,omitempty"`
	Attacks   []audit.AttackRow   `json:"attacks,omitempty"`
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
	faulty, err := c.Lint(ctx, progressBar(progress, "linting"))
	if err != nil {
		return nil, err
	}
	leaks, err := audit.Lint(c)
	if err != nil {
		return nil, err
	}
	for _, f := range slices.Concat(faulty, leaks) {
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
	if r.Queues, err = audit.Queues(c, audit.Declared(c), 0); err != nil {
		return nil, err
	}
	judge := offline.New()
	if len(c.Workflows()) > 0 {
		if r.Sequences, err = audit.Workflows(c, judge, 0); err != nil {
			return nil, err
		}
	}
	if len(faulty) > 0 { // a faulty scenario can't be played at every seed
		return r, nil
	}
	return r, r.attack(ctx, c, judge)
}

// attack adds the figures of attacks.
func (r *report) attack(ctx context.Context, c *scenarios.Catalog, judge audit.Judge) (err error) {
	if r.Attacks, err = audit.Attacks(ctx, c, judge); err != nil {
		return err
	}
	for _, f := range audit.AttackFindings(c, r.Attacks) {
		r.Findings = append(r.Findings, finding(f))
	}
	return nil
}

// faults converts the errors of loading to findings.
func faults(err error) []finding {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	return view.Each(all, func(err error) finding {
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
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		if bar == nil {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w),
				progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
				progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		}
		_ = bar.Set(done) // a bar that can't be drawn is no failure
	}
}

func (r *report) print(w io.Writer) {
	for _, f := range r.Findings {
		line := fmt.Sprintf("%s: %s (%s)", f.Position, f.Message, f.Rule)
		for i, part := range strings.Split(text.WrapSoft(printable.Text(line), view.Width-4), "\n") {
			fmt.Fprintln(w, strings.TrimRight(strings.Repeat(" ", 4*min(i, 1))+part, " "))
		}
	}
	printTable(w, "Distribution of the tickets at seed 0", shortColumns(), r.Distribution,
		func(m audit.Marginal) []any {
			return append([]any{m.Of}, view.Each(audit.Columns(), func(c string) any { return m.Counts[c] })...)
		})
	shortcuts := []string{"policy", "cls", "prio", "esc", "classify", "rules"}
	printTable(w, "Scores of shortcuts on the tickets at seed 0, with the declared cues", shortcuts, r.Declared,
		shortcutCells)
	printTable(w, "The same with keywords as cues, over all wordings", shortcuts, r.Keywords, shortcutCells)
	printTable(w, "Scores of strategies on the queues, with the declared cues",
		[]string{"strategy", "raw", "of the best"}, r.Queues, func(f audit.QueueFigures) []any {
			return []any{f.Policy, score.Thousandths(f.Raw), score.Thousandths(f.Relative)}
		})
	printTable(w, "Scores of fixed sequences of actions on the workflows at seed 0",
		[]string{"sequence", "all facts", "passed", "copied fields", "passed"}, r.Sequences,
		func(s audit.SequenceRow) []any {
			return []any{s.Policy, score.Thousandths(s.UpperBound.Score), s.UpperBound.Passed,
				score.Thousandths(s.Template.Score), s.Template.Passed}
		})
	printTable(w, "Scores of attacks on the grader, of which a reply earns at most 0.500",
		[]string{"attack", "episodes", "reply", "episode", "passed", "limit"}, r.Attacks, attackCells)
	fmt.Fprintf(w, "\n%s and %s: %s\n", view.Count(r.Tickets, "ticket"), view.Count(r.Workflows, "workflow"),
		view.Count(len(r.Findings), "finding"))
}

// printTable prints a title and a table, or nothing if there are no rows.
func printTable[T any](w io.Writer, title string, header []string, rows []T, cells func(T) []any) {
	if len(rows) == 0 {
		return
	}
	t := view.NewTable(header...)
	for _, row := range rows {
		t.AppendRow(cells(row))
	}
	fmt.Fprintf(w, "\n%s\n\n%s\n", title, t.Render())
}

func shortcutCells(f audit.Figures) []any {
	return []any{f.Policy, score.Thousandths(f.Category), score.Thousandths(f.Priority),
		score.Thousandths(f.Escalation), score.Thousandths(f.Classify), score.Thousandths(f.Rules)}
}

func attackCells(r audit.AttackRow) []any {
	reply, limit := "-", "-"
	if r.Reply != nil {
		reply = score.Thousandths(*r.Reply)
	}
	if l := r.Limit; l != nil {
		sign := "<="
		if l.Least {
			sign = ">="
		}
		limit = fmt.Sprintf("%s %s %s %s", l.Figure, score.Thousandths(l.Value), sign, score.Thousandths(l.Bound))
	}
	return []any{r.Attack, r.Episodes, reply, score.Thousandths(r.Episode), score.Thousandths(r.Passed), limit}
}

// shortColumns is the header of the distribution.
func shortColumns() []string {
	short := map[string]string{
		"billing": "bill", "shipping": "ship", "technical": "tech", "general": "gen", "medium": "med", "urgent": "urg",
		"escalate": "esc", "resolve": "res", "premium": "prem", "enterprise": "ent",
	}
	return append([]string{""}, view.Each(audit.Columns(), func(c string) string { return cmp.Or(short[c], c) })...)
}
