package figures

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/episodes"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/scenarios"
)

// report is what the template report.html shows.
type report struct {
	Title, Version string
	Style          template.CSS
	// Policy allows nothing but the style, by its digest.
	Policy string
	// Mixed means that the runs aren't comparable, and Troubled that one has trouble.
	Mixed, Troubled bool
	Runs            []reportRun
}

// reportRun is a run and its episodes that did not pass.
type reportRun struct {
	RunView
	Anchor, FailedNote string
	Failed             []reportEpisode
}

type reportEpisode struct{ Label, Transcript string }

// NewReportCommand returns the command that writes a report.
func NewReportCommand() *cobra.Command {
	var from source.Flags
	var selector, out string
	var limit int
	cmd := &cobra.Command{
		Use:   "report [RUN...]",
		Short: "Write a report of runs as one HTML file",
	}
	cli.SetHelp(cmd, "report")
	from.Add(cmd)
	from.AddKeys(cmd)
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
	pages, err := page.New("")
	if err != nil {
		return err
	}
	style, err := page.ReadStatic("csenv.css")
	if err != nil {
		return err
	}
	slices.SortStableFunc(runs, func(a, b *source.LoadedRun) int { return cmp.Compare(meanOf(b), meanOf(a)) })
	names := view.MapItems(runs, func(r *source.LoadedRun) string { return r.Name })
	digest := sha256.Sum256(style)
	allowed := "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
	out := report{Title: "Evaluation of " + strings.Join(names, ", "), Version: cli.Version,
		Style:  template.CSS(style), // a file of this program
		Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + allowed}
	for i, r := range runs {
		out.Mixed = out.Mixed || MayCompare(runs[0], r) != nil
		section := reportRun{RunView: NewRunView(r.EvaluationRun, ViewOptions{Now: time.Now(), Report: true,
			Lost: r.Lost, Doubt: r.Doubt(), Others: runs}),
			Anchor: fmt.Sprintf("run-%d", i+1)}
		if err := section.addEpisodes(ctx, catalog, r, limit); err != nil {
			return err
		}
		out.Troubled = out.Troubled || section.Trouble != ""
		out.Runs = append(out.Runs, section)
	}
	html, err := pages.Part("report", "report.html", out)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = w.Write(html)
	return err
}

func meanOf(r *source.LoadedRun) float64 {
	return chart.ParseDecimal(ptr.Deref(r.Status.Score, v1alpha1.Score{}).Mean)
}

// addEpisodes adds transcripts of episodes that did not pass.
func (p *reportRun) addEpisodes(ctx context.Context, catalog *scenarios.Catalog, r *source.LoadedRun, limit int) error {
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
		if e.Score == nil || source.ToMicroPoints(*e.Score) < pass {
			missed = append(missed, e)
		}
	}
	slices.SortStableFunc(missed, func(a, b record.Episode) int {
		return cmp.Or(cmp.Compare(ptr.Deref(a.Score, -1), ptr.Deref(b.Score, -1)), cmp.Compare(a.Index, b.Index))
	})
	p.FailedNote = fmt.Sprintf("%d of %d episodes, the lowest score first.", len(missed), p.Progress.Total)
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
			points = "score " + score.FormatDecimal(source.ToMicroPoints(*e.Score))
		}
		scenario := strings.TrimSuffix(e.Scenario+": "+TitleOf(catalog, e.Scenario, e.Seed), ": ")
		p.Failed = append(p.Failed, reportEpisode{Transcript: text.String(), Label: fmt.Sprintf(
			"episode %d, %s, %s, trial %d: %s, %s", e.Index+1, e.Task, scenario, e.Trial+1, e.Outcome, points)})
	}
	return nil
}
