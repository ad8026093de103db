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
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

//go:embed report.html.tmpl
var reportPage string

// page is a report. The template escapes its texts, because agents and scenarios wrote them.
type page struct {
	Title, Version string
	Mixed          bool
	Runs           []pageRun
}

type pageRun struct {
	*v1alpha1.EvaluationRun
	Anchor, Agent, State, Message string
	Good                          bool
	Episodes                      v1alpha1.RunEpisodes
	Groups, Dimensions            []figureRow
	Bars                          []pageBar
	FailedNote                    string
	Failed                        []pageEpisode
	Provenance                    [][]string
}

// pageInterval is drawn on 200 pixels.
type pageInterval struct {
	Label         string
	Known         bool
	Low, At, High float64
}

type pageBar struct {
	X, Y, Height float64
	Label        string
}

type pageEpisode struct{ Label, Transcript string }

// NewReportCommand returns the command that writes a report.
func NewReportCommand() *cobra.Command {
	var from source.Flags
	var selector, out string
	var limit int
	cmd := &cobra.Command{
		Use:   "report [RUN...]",
		Short: "Write a report of runs as one HTML file",
	}
	cli.Help(cmd, "report")
	from.Add(cmd)
	packs := cli.PackFlag(cmd.Flags())
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only runs with these `labels`")
	view.FormatFlag(cmd.Flags(), "html")
	cmd.Flags().StringVarP(&out, "out", "O", "report.html", "`file` to write; - is standard output")
	cmd.Flags().IntVar(&limit, "episodes", 20, "maximum number of failed episodes with a transcript, for each run")
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

func writeReport(ctx context.Context, w io.Writer, catalog *scenarios.Catalog, runs []*source.LoadedRun,
	limit int) error {
	t, err := template.New("report").Funcs(pageFunctions()).Parse(reportPage)
	if err != nil {
		return fmt.Errorf("reading the report's template: %w", err)
	}
	slices.SortStableFunc(runs, func(a, b *source.LoadedRun) int { return cmp.Compare(meanOf(b), meanOf(a)) })
	names := view.Each(runs, func(r *source.LoadedRun) string { return r.Name })
	p := page{Title: "Evaluation of " + strings.Join(names, ", "), Version: cli.Version}
	for i, r := range runs {
		p.Mixed = p.Mixed || mayCompare(runs[0], r) != nil
		section := newPageRun(r)
		section.Anchor = fmt.Sprintf("run-%d", i+1)
		if err := section.addEpisodes(ctx, catalog, r, limit); err != nil {
			return err
		}
		p.Runs = append(p.Runs, section)
	}
	var html bytes.Buffer
	if err := t.Execute(&html, p); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return view.WriteHTML(w, html.String())
}

func meanOf(r *source.LoadedRun) float64 {
	return view.Decimal(ptr.Deref(r.Status.Score, v1alpha1.Score{}).Mean)
}

func newPageRun(r *source.LoadedRun) pageRun {
	s := &r.Status
	p := pageRun{
		EvaluationRun: r.EvaluationRun, Agent: source.AgentName(r.EvaluationRun),
		Episodes:   ptr.Deref(s.Episodes, v1alpha1.RunEpisodes{}),
		Good:       meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete),
		Provenance: provenanceSection(s).Rows,
	}
	p.State, p.Message = StateOf(r.EvaluationRun)
	if s.Score == nil {
		return p
	}
	for _, row := range runRows(r.EvaluationRun) {
		switch row.Scope {
		case "run":
		case "dimension":
			p.Dimensions = append(p.Dimensions, row)
		default:
			p.Groups = append(p.Groups, row)
		}
	}
	var sums score.Accumulator
	if s.Shards != nil && sums.UnmarshalText([]byte(s.Shards.Accumulator)) == nil {
		p.Bars = bars(sums.Histogram())
	}
	return p
}

// pageFunctions are the functions that the template draws with.
func pageFunctions() template.FuncMap {
	return template.FuncMap{
		"interval": newPageInterval,
		"scored":   func(e v1alpha1.RunEpisodes) int64 { return e.Scored + e.Failed },
		"cut":      func(s string) []string { return strings.SplitN(s, "/", 2) },
		"share": func(earned, offered string, of float64) float64 {
			if most := view.Decimal(offered); most > 0 {
				return of * min(max(view.Decimal(earned)/most, 0), 1)
			}
			return 0
		},
	}
}

func newPageInterval(mean, low, high string) pageInterval {
	at := func(text string) float64 { return 5 + 200*view.Decimal(text) }
	if low == "" {
		return pageInterval{Label: mean, At: at(mean)}
	}
	return pageInterval{fmt.Sprintf("%s, %s to %s", mean, low, high), true, at(low), at(mean), at(high)}
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
		out = append(out, pageBar{X: 10 + 12*float64(i), Y: 140 - height, Height: height,
			Label: fmt.Sprintf("%s with %.2f to %.2f", view.Count(int(n), "episode"), float64(i)/score.Bins,
				float64(i+1)/score.Bins)})
	}
	return out
}

// addEpisodes adds transcripts of episodes that did not pass.
func (p *pageRun) addEpisodes(ctx context.Context, catalog *scenarios.Catalog, r *source.LoadedRun, limit int) error {
	pass, err := evaluation.PassScore(r.EvaluationRun)
	if err != nil {
		return err
	}
	var missed []record.Episode
	for e, err := range r.Episodes(ctx) {
		if errors.Is(err, source.ErrNothingStored) {
			p.FailedNote = "The episodes of this run are not stored, so there are no transcripts: create the run " +
				"again with spec.results, or play it with `csenv eval`."
			return nil
		}
		if err != nil {
			return err
		}
		if e.Score == nil || source.Micro(*e.Score) < pass {
			missed = append(missed, e)
		}
	}
	slices.SortStableFunc(missed, func(a, b record.Episode) int {
		return cmp.Or(cmp.Compare(ptr.Deref(a.Score, -1), ptr.Deref(b.Score, -1)), cmp.Compare(a.Index, b.Index))
	})
	p.FailedNote = fmt.Sprintf("%d of %d episodes, the lowest score first.", len(missed), p.Episodes.Total)
	if len(missed) > limit {
		p.FailedNote = fmt.Sprintf("%d of %d, the lowest score first: --episodes %d shows all.", limit, len(missed),
			len(missed))
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
		p.Failed = append(p.Failed, pageEpisode{Transcript: text.String(), Label: fmt.Sprintf(
			"episode %d: %s, %s, trial %d: %s, %s", e.Index, e.Task, e.Scenario, e.Trial, e.Outcome, points)})
	}
	return nil
}
