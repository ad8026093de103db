package main

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

func newPlotCommand() *cobra.Command {
	var from source
	var selector, out, kind string
	cmd := &cobra.Command{
		Use:   "plot [RUN...]",
		Short: "Plot runs: the histogram of one, the intervals of several",
		Long: `Plot runs: the histogram of scores of one run, the mean scores of several with their 95 % intervals.
In the terminal, or as SVG, PNG or PDF with --out.`,
		Example: `  csenv plot heuristic
  csenv plot gpt heuristic oracle -O scores.svg
  csenv plot -l team=support --kind intervals -O scores.png`,
	}
	from.add(cmd)
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only runs with these `labels`")
	cmd.Flags().StringVarP(&out, "out", "O", "", "`file` to write, by its ending: .svg, .png or .pdf")
	cmd.Flags().StringVar(&kind, "kind", "", "histogram or intervals; by the number of runs by default")
	complete(cmd, "kind", func() []string { return []string{"histogram", "intervals"} })
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if !slices.Contains([]string{"", "histogram", "intervals"}, kind) {
			return fmt.Errorf("--kind is %q: choose histogram or intervals", kind)
		}
		if out != "" && !slices.Contains([]string{".svg", ".png", ".pdf"}, filepath.Ext(out)) {
			return fmt.Errorf("--out is %s: give it the ending .svg, .png or .pdf", out)
		}
		runs, err := from.all(cmd.Context(), selector, names)
		if err != nil {
			return err
		}
		runs = slices.DeleteFunc(runs, func(r *aRun) bool { return r.Status.Score == nil })
		if len(runs) == 0 {
			return errors.New("no run has a score yet: `csenv run --follow RUN` waits for it")
		}
		if kind == "" && len(runs) == 1 {
			kind = "histogram"
		}
		if kind == "histogram" {
			return plotHistograms(cmd.OutOrStdout(), runs, out)
		}
		return plotIntervals(cmd.OutOrStdout(), runs, out)
	}
	return cmd
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

func plotHistograms(w io.Writer, runs []*aRun, out string) error {
	if len(runs) != 1 {
		return fmt.Errorf("a histogram shows one run, and there are %d: name one, or take --kind intervals", len(runs))
	}
	bins, err := histogram(runs[0].EvaluationRun)
	if err != nil {
		return err
	}
	if out == "" {
		drawHistogram(w, runs[0].Name, bins)
		return nil
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = runs[0].Name, "score", "episodes"
	p.X.Min, p.X.Max, p.Y.Min = 0, 1, 0
	var points plotter.XYs
	for i, n := range bins {
		points = append(points, plotter.XY{X: (float64(i) + 0.5) / score.Bins, Y: float64(n)})
	}
	bars, err := plotter.NewHistogram(points, score.Bins)
	if err != nil {
		return fmt.Errorf("plotting: %w", err)
	}
	bars.FillColor = color.RGBA{R: 0x3b, G: 0x74, B: 0xb8, A: 0xff}
	p.Add(bars)
	return save(p, out, 12*vg.Centimeter)
}

func save(p *plot.Plot, out string, height vg.Length) error {
	if err := p.Save(18*vg.Centimeter, height, out); err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

// drawHistogram draws with characters: a line for two bins.
func drawHistogram(w io.Writer, name string, bins [score.Bins]int64) {
	const width = 60
	var most int64
	joined := make([]int64, 0, score.Bins/2)
	for pair := range slices.Chunk(bins[:], 2) {
		joined = append(joined, pair[0]+pair[1])
		most = max(most, pair[0]+pair[1])
	}
	fmt.Fprintf(w, "%s: episodes by score\n\n", name)
	for i, n := range joined {
		length := int(n * width / max(most, 1))
		if n > 0 {
			length = max(length, 1)
		}
		line := fmt.Sprintf("%.2f  %-*s  %d", float64(2*i)/score.Bins, width, strings.Repeat("█", length), n)
		if n == 0 {
			line = fmt.Sprintf("%.2f", float64(2*i)/score.Bins)
		}
		fmt.Fprintln(w, line)
	}
}

func plotIntervals(w io.Writer, runs []*aRun, out string) error {
	slices.SortFunc(runs, func(a, b *aRun) int {
		return cmp.Or(cmp.Compare(decimal(b.Status.Score.Mean), decimal(a.Status.Score.Mean)),
			cmp.Compare(a.Name, b.Name))
	})
	if out == "" {
		drawIntervals(w, runs)
		return nil
	}
	p := plot.New()
	p.X.Label.Text = "mean score, 95 % interval over scenarios"
	p.X.Min, p.X.Max = 0, 1
	var points intervals
	names := make([]string, len(runs))
	for i, r := range runs {
		y := len(runs) - 1 - i
		names[y] = r.Name
		points.add(r.Status.Score, float64(y))
	}
	middles, err := plotter.NewScatter(points.XYs)
	if err != nil {
		return fmt.Errorf("plotting: %w", err)
	}
	lines, err := plotter.NewXErrorBars(points)
	if err != nil {
		return fmt.Errorf("plotting: %w", err)
	}
	p.Add(plotter.NewGrid(), lines, middles)
	p.NominalY(names...)
	return save(p, out, vg.Length(len(runs)+3)*vg.Centimeter)
}

// intervals are points with errors to both sides, as plotter takes them.
type intervals struct {
	plotter.XYs
	plotter.XErrors
}

func (i *intervals) add(s *v1alpha1.Score, y float64) {
	mean, low, high := decimal(s.Mean), decimal(s.Mean), decimal(s.Mean)
	if s.CI95 != nil {
		low, high = decimal(s.CI95.Low), decimal(s.CI95.High)
	}
	i.XYs = append(i.XYs, plotter.XY{X: mean, Y: y})
	i.XErrors = append(i.XErrors, struct{ Low, High float64 }{mean - low, high - mean})
}

func drawIntervals(w io.Writer, runs []*aRun) {
	const width = 50
	longest := 0
	for _, r := range runs {
		longest = max(longest, min(len(r.Name), 24))
	}
	fmt.Fprintf(w, "%-*s  0%s1\n", longest, "", strings.Repeat(" ", width-2))
	for _, r := range runs {
		s := r.Status.Score
		low, high := "", ""
		if s.CI95 != nil {
			low, high = s.CI95.Low, s.CI95.High
		}
		name := r.Name
		if len(name) > longest {
			name = name[:longest-1] + "…"
		}
		fmt.Fprintf(w, "%-*s  %s  %s\n", longest, name, interval(low, s.Mean, high, width), s.Mean)
	}
}
