package authoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/agreement"
	"github.com/csenv/csenv/envserver/modelflags"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/tasks"
)

// NewJudgeCommand returns the command with the subcommands about judges.
func NewJudgeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "judge", Short: "Check judges of replies"}
	return cli.GroupCommands(cmd, newAgreementCommand())
}

// defaultPassLine is the share of points that passes an episode of ticket-resolve, applied to the
// points of a reply: 0.75 of 0.5.
var defaultPassLine = float64(tasks.PassScore(tasks.TicketResolve)) / score.One * agreement.MaxLabel

func newAgreementCommand() *cobra.Command {
	judge := modelflags.DefaultJudge()
	cmd := &cobra.Command{
		Use:   "agreement FILE",
		Short: "Compare a judge's points with the labels of people",
		Args:  cli.RequireArguments("FILE"),
	}
	cli.SetHelp(cmd, "agreement")
	flags := cmd.Flags()
	packs, output := cli.PackFlag(flags), view.FormatFlag(flags, "text", "markdown", "json")
	judge.AddFlags(flags)
	passLine := flags.Float64("pass-line", defaultPassLine, "minimum points of a passed reply")
	worst := flags.Int("worst", 5, "number of worst disagreements to show")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *passLine <= 0 || *passLine > agreement.MaxLabel {
			return fmt.Errorf("--pass-line is %g: give more than 0 and at most %g", *passLine, agreement.MaxLabel)
		}
		judge.FromEnvironment(os.LookupEnv)
		if err := judge.Validate(); err != nil {
			return err
		}
		replies, err := readLabelled(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		j, err := judge.New()
		if err != nil {
			return err
		}
		g, err := agreement.NewGrader(catalog, j)
		if err != nil {
			return err
		}
		graded, err := gradeAll(cmd.Context(), g, replies, judge.Model.MaxConcurrency, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		f := agreement.Measure(j.Name(), graded, *passLine, *worst)
		if output.Name == "json" {
			err = output.Encode(cmd.OutOrStdout(), f)
		} else {
			agreementDocument(f).Print(cmd.OutOrStdout(), output.Name)
		}
		if err == nil && f.Errored > 0 {
			err = cli.ErrOutcome
		}
		return err
	}
	return cmd
}

func readLabelled(stdin io.Reader, path string) ([]agreement.Reply, error) {
	if path == "-" {
		return agreement.ReadReplies(stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	replies, err := agreement.ReadReplies(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return replies, nil
}

// gradeAll grades the replies in parallel and returns them in their order.
func gradeAll(ctx context.Context, g *agreement.Grader, replies []agreement.Reply, concurrency int,
	progress io.Writer) ([]agreement.Graded, error) {
	show := progressBar(progress, "grading")
	graded := make([]agreement.Graded, len(replies))
	var mu sync.Mutex
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i, r := range replies {
		group.Go(func() error {
			var err error
			if graded[i], err = g.Grade(ctx, r); err != nil {
				return fmt.Errorf("reply %d: %w", i+1, err)
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			show(done, len(replies))
			return nil
		})
	}
	return graded, group.Wait()
}

func agreementDocument(f agreement.Figures) view.Document {
	scored := view.Section{
		Heading: fmt.Sprintf("Agreement of %s with %s, pass line %.3f", f.Judge, view.FormatCount(f.Replies, "label"),
			f.PassLine),
		Header: []string{"replies", "n", "label", "points", "MAE", "within .10", "> .10 above", "> .05 below",
			"Spearman", "kappa"},
		Rows: [][]string{agreementRow("all", f.All)},
	}
	confusion := view.Section{Heading: "Passed and failed",
		Header: []string{"replies", "both pass", "judge only", "label only", "neither"},
		Rows:   [][]string{confusionRow("all", f.All)}}
	for _, groups := range [][]agreement.Group{f.Classes, f.Languages} {
		for _, g := range groups {
			name := view.OrDash(g.Name)
			scored.Rows = append(scored.Rows, agreementRow(name, g))
			confusion.Rows = append(confusion.Rows, confusionRow(name, g))
		}
	}
	if f.Errored > 0 {
		scored.Note = fmt.Sprintf("%d errored (excluded)", f.Errored)
	}
	worst := view.Section{Heading: "Worst disagreements",
		Header: []string{"scenario", "seed", "class", "label", "points", "reply", "reader", "judge"}}
	for _, g := range f.Worst {
		worst.Rows = append(
			worst.Rows,
			[]string{g.Scenario, strconv.FormatInt(g.Seed, 10), g.Class, formatPoints(g.Label),
				formatPoints(
					g.Points,
				), printable.EscapeText(g.Text), printable.EscapeText(g.Why), explainVerdict(g.Verdict)},
		)
	}
	return view.Document{Sections: []view.Section{scored, confusion, worst}}
}

func agreementRow(name string, g agreement.Group) []string {
	return []string{
		name,
		strconv.Itoa(g.Replies),
		formatPoints(g.Label),
		formatPoints(g.Points),
		formatPoints(g.MAE),
		formatPoints(g.Within),
		formatPoints(g.Lenient),
		formatPoints(g.Strict),
		formatOptional(g.Spearman),
		formatOptional(g.Kappa),
	}
}

func confusionRow(name string, g agreement.Group) []string {
	c := g.Confusion
	return []string{name, strconv.Itoa(c.BothPass), strconv.Itoa(c.JudgePass), strconv.Itoa(c.LabelPass),
		strconv.Itoa(c.Neither)}
}

func formatPoints(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }

func formatOptional(x *float64) string {
	if x == nil {
		return "-"
	}
	return formatPoints(*x)
}

// explainVerdict names the criteria that lost points and the gates of a verdict.
func explainVerdict(v *grader.Verdict) string {
	if v == nil {
		return ""
	}
	var text strings.Builder
	for _, c := range v.Criteria {
		if c.Earned < c.Offered {
			fmt.Fprintf(&text, "%s %d of %d: %s. ", c.ID, c.Earned, c.Offered, c.Reason)
		}
	}
	for _, g := range v.Gates {
		fmt.Fprintf(&text, "%s at most %d: %s. ", g.ID, g.Cap, g.Reason)
	}
	return printable.EscapeText(text.String())
}
