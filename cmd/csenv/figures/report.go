package figures

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/episodes"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

//go:embed report.html.tmpl
var reportPage string

// page is a report. What it holds of agents and scenarios is anybody's text: the template escapes
// it.
type page struct {
	Title, Version string
	Mixed          bool
	Runs           []pageRun
}

type pageRun struct {
	Anchor, Name, Agent, State, Message string
	Good                                bool
	Score, Range, PassRate, PassRange   string
	Scored, Total, Errored              int64
	Interval                            *pageInterval
	PassHat                             []v1alpha1.PassHat
	Groups                              []pageGroup
	Dimensions                          []pageDimension
	Bars                                []pageBar
	Errors                              []v1alpha1.ErrorCount
	EpisodesNote                        string
	Episodes                            []pageEpisode
	Provenance                          [][]string
}

type pageGroup struct {
	Label                     string
	Episodes                  int64
	Mean, Low, High, PassRate string
	Interval                  *pageInterval
}

// pageInterval is drawn on 200 pixels.
type pageInterval struct {
	Label         string
	Known         bool
	Low, At, High float64
}

type pageDimension struct {
	Task, Name, Earned, Offered string
	Width                       float64
	Percent                     int
}

type pageBar struct {
	X, Y, Height float64
	Label        string
}

type pageEpisode struct{ Label, Transcript string }

func NewReportCommand() *cobra.Command {
	var from source.Flags
	var selector, out string
	var limit int
	var packs *[]string
	cmd := &cobra.Command{
		Use:   "report [RUN...]",
		Short: "Write a page about runs that can be sent around",
		Long: `Write a page about runs that can be sent around: one HTML file without anything to load, with scores
and their intervals by task, dimension and category, histograms, what the runs were made with, and
the transcripts of episodes that did not pass, where episodes are stored.`,
		Example: `  csenv report gpt heuristic -o report.html
  csenv report --results ./results -o report.html --episodes 50`,
	}
	from.Add(cmd)
	packs = cli.PackFlag(cmd.Flags())
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only runs with these `labels`")
	cmd.Flags().StringVarP(&out, "out", "o", "report.html", "`file` to write; - is standard output")
	cmd.Flags().IntVar(&limit, "episodes", 20, "transcripts of so many episodes that did not pass, for each run")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		runs, err := from.All(cmd.Context(), selector, names)
		if err != nil {
			return err
		}
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		write := func(w io.Writer) error { return writeReport(cmd.Context(), w, catalog, runs, limit) }
		if out == "-" {
			return write(cmd.OutOrStdout())
		}
		if err := cli.ReplaceFile(out, write); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", out)
		return nil
	}
	return cmd
}

func writeReport(ctx context.Context, w io.Writer, catalog *scenarios.Catalog, runs []*source.LoadedRun, limit int) error {
	t, err := template.New("report").Parse(reportPage)
	if err != nil {
		return fmt.Errorf("reading the report's template: %w", err)
	}
	slices.SortStableFunc(runs, func(a, b *source.LoadedRun) int { return cmp.Compare(meanOf(b), meanOf(a)) })
	p := page{Title: "Evaluation of " + strings.Join(view.Each(runs, func(r *source.LoadedRun) string { return r.Name }), ", "),
		Version: cli.Version}
	for i, r := range runs {
		p.Mixed = p.Mixed || mayCompare(runs[0], r) != nil
		section := newPageRun(r)
		section.Anchor = fmt.Sprintf("run-%d", i+1)
		if err := section.addEpisodes(ctx, catalog, r, limit); err != nil {
			return err
		}
		p.Runs = append(p.Runs, section)
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func meanOf(r *source.LoadedRun) float64 {
	return view.Decimal(ptr.Deref(r.Status.Score, v1alpha1.Score{}).Mean)
}

func newPageRun(r *source.LoadedRun) pageRun {
	s := &r.Status
	state, message := StateOf(r.EvaluationRun)
	episodes := ptr.Deref(s.Episodes, v1alpha1.RunEpisodes{})
	p := pageRun{
		Name: r.Name, Agent: source.AgentName(r.EvaluationRun), State: state, Message: message, PassRate: s.PassRate,
		PassHat: s.PassHatK, Errors: s.Errors,
		Scored: episodes.Scored + episodes.Failed, Total: episodes.Total, Errored: episodes.Errored,
		Good:       meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete),
		Provenance: provenanceSection(s).Rows,
	}
	if ci := s.PassRateCI95; ci != nil {
		p.PassRange = ci.Low + " to " + ci.High
	}
	if s.Score == nil {
		return p
	}
	p.Score, p.Interval = s.Score.Mean, newPageInterval(s.Score.Mean, ptr.Deref(s.Score.CI95, v1alpha1.Interval{}))
	if ci := s.Score.CI95; ci != nil {
		p.Range = ci.Low + " to " + ci.High
	}
	for _, row := range runRows(r.EvaluationRun) {
		switch row.scope {
		case "run":
		case "dimension":
			p.Dimensions = append(p.Dimensions, newPageDimension(row))
		default:
			p.Groups = append(p.Groups, pageGroup{
				Label: row.label(), Episodes: row.episodes, Mean: row.mean, Low: row.low, High: row.high,
				PassRate: row.passRate,
				Interval: newPageInterval(row.mean, v1alpha1.Interval{Low: row.low, High: row.high}),
			})
		}
	}
	if bins, err := histogram(r.EvaluationRun); err == nil {
		p.Bars = bars(bins)
	}
	return p
}

func newPageInterval(mean string, ci v1alpha1.Interval) *pageInterval {
	at := func(text string) float64 { return 5 + 200*view.Decimal(text) }
	i := &pageInterval{Label: mean, At: at(mean)}
	if ci.Low != "" {
		i.Known, i.Low, i.High, i.Label = true, at(ci.Low), at(ci.High), fmt.Sprintf("%s, %s to %s", mean, ci.Low,
			ci.High)
	}
	return i
}

func newPageDimension(row figureRow) pageDimension {
	task, name, _ := strings.Cut(row.name, "/")
	share := 0.0
	if most := view.Decimal(row.offered); most > 0 {
		share = min(max(view.Decimal(row.mean)/most, 0), 1)
	}
	return pageDimension{Task: task, Name: name, Earned: row.mean, Offered: row.offered, Width: 160 * share,
		Percent: int(100*share + 0.5)}
}

// bars draws a histogram of 600 by 130 pixels.
func bars(bins [score.Bins]int64) []pageBar {
	most := slices.Max(bins[:])
	var out []pageBar
	for i, n := range bins {
		if n == 0 {
			continue
		}
		height := max(130*float64(n)/float64(most), 2)
		out = append(out, pageBar{
			X: 10 + 12*float64(i), Y: 140 - height, Height: height, Label: fmt.Sprintf("%s with %.2f to %.2f",
				view.Count(int(n), "episode"), float64(i)/score.Bins, float64(i+1)/score.Bins),
		})
	}
	return out
}

// addEpisodes adds transcripts of episodes that did not pass.
func (p *pageRun) addEpisodes(ctx context.Context, catalog *scenarios.Catalog, r *source.LoadedRun, limit int) error {
	pass, err := score.ParseDecimal(r.Spec.PassScore)
	if err != nil {
		return fmt.Errorf("reading the pass score of run %s: %w", r.Name, err)
	}
	var missed []record.Episode
	for e, err := range r.Episodes(ctx) {
		if errors.Is(err, source.ErrNothingStored) {
			p.EpisodesNote = "The run's episodes are not stored, so that they can't be shown: give it spec.results, " +
				"or play it with csenv eval --results."
			return nil
		}
		if err != nil {
			return err
		}
		if e.Score == nil || source.Micro(*e.Score) < pass {
			missed = append(missed, e)
		}
	}
	p.EpisodesNote = fmt.Sprintf("%d of %d episodes.", len(missed), p.Total)
	if len(missed) > limit {
		p.EpisodesNote = fmt.Sprintf("The first %d of %d.", limit, len(missed))
		missed = missed[:limit]
	}
	for _, e := range missed {
		var text bytes.Buffer
		if err := episodes.PrintTranscript(ctx, &text, catalog, e); err != nil {
			return err
		}
		points := "no score"
		if e.Score != nil {
			points = "score " + score.Decimal(source.Micro(*e.Score))
		}
		p.Episodes = append(p.Episodes, pageEpisode{
			Label: fmt.Sprintf("episode %d: %s, %s, trial %d: %s, %s", e.Index, e.Task, e.Scenario, e.Trial, e.Outcome,
				points), Transcript: text.String(),
		})
	}
	return nil
}

// histogram is how many of a run's episodes have which score.
func histogram(run *v1alpha1.EvaluationRun) ([score.Bins]int64, error) {
	var sums score.Accumulator
	if run.Status.Shards == nil {
		return [score.Bins]int64{}, fmt.Errorf("run %s has not begun", run.Name)
	}
	if err := sums.UnmarshalText([]byte(run.Status.Shards.Accumulator)); err != nil {
		return [score.Bins]int64{}, fmt.Errorf("reading the figures of run %s: %w", run.Name, err)
	}
	return sums.Histogram(), nil
}
