// Package export writes stored episodes in the formats of trainers and of other evaluation tools.
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// format is a way to write episodes.
type format struct {
	name string
	// file and folder open the output; one of them is nil.
	file   func(io.Writer) writer
	folder func(*folder) writer
}

// writer writes episodes. Its output is complete after close.
type writer interface {
	add(t *trajectory) error
	close() error
}

var formats = []format{
	{name: "jsonl", file: newJSONLines},
	{name: "parquet", file: newParquet},
	{name: "hf", folder: newDataset},
}

func formatNames() []string {
	return view.MapItems(formats, func(f format) string { return f.name })
}

type options struct {
	format, out   string
	tasks         []string
	minScore      string
	errored, gold bool
	// minimum is minScore in micro-points.
	minimum int64
}

// NewExportCommand returns the command that writes stored episodes for other tools.
func NewExportCommand() *cobra.Command {
	var from source.Flags
	var o options
	cmd := &cobra.Command{
		Use:   "export RUN...",
		Short: "Write stored episodes for training, or for other evaluation tools",
		Args:  atLeastOneRun,
	}
	cli.SetHelp(cmd, "export")
	from.Add(cmd)
	packs := cli.PackFlag(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&o.format, "format", formats[0].name, "`format`: "+strings.Join(formatNames(), ", "))
	cli.CompleteFlag(cmd, "format", formatNames()...)
	f.StringVarP(&o.out, "out", "O", "", "new `file`, for hf a new folder; for jsonl, standard output when absent")
	f.StringSliceVar(&o.tasks, "task", nil, "only this `task`; may be repeated")
	f.StringVar(&o.minScore, "min-score", "", "only episodes with at least this `score`")
	f.BoolVar(&o.errored, "errored", false, "also episodes without a score because the infrastructure failed")
	f.BoolVar(&o.gold, "gold", false, "with the gold: never show it to an agent that is evaluated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		chosen, err := o.check()
		if err != nil {
			return err
		}
		runs, err := from.Find(cmd.Context(), args...)
		if err != nil {
			return err
		}
		if err := checkDuplicates(runs); err != nil {
			return err
		}
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		e := exporter{options: o, reader: newReader(catalog, o.gold), runs: runs,
			meter: view.NewMeter(cmd.ErrOrStderr(), "exporting", time.Now)}
		defer e.meter.Finish()
		if err := e.export(cmd.Context(), chosen, cmd.OutOrStdout()); err != nil {
			return err
		}
		e.meter.Finish()
		e.reportCounts(cmd.ErrOrStderr())
		return nil
	}
	return cmd
}

func atLeastOneRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("missing argument RUN: see `%s --help`", cmd.CommandPath())
	}
	return nil
}

// checkDuplicates reports a run that is named twice.
func checkDuplicates(runs []*source.LoadedRun) error {
	known := map[types.UID]bool{}
	for _, run := range runs {
		if known[run.UID] {
			return fmt.Errorf("run %s is named twice", run.Name)
		}
		known[run.UID] = true
	}
	return nil
}

// check validates the flags.
func (o *options) check() (format, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == o.format })
	if i < 0 {
		return format{}, fmt.Errorf("--format is %q: choose one of %s", o.format, strings.Join(formatNames(), ", "))
	}
	if o.minScore != "" {
		var err error
		if o.minimum, err = score.ParseDecimal(o.minScore); err != nil {
			return format{}, fmt.Errorf("reading --min-score: %w", err)
		}
		if o.errored {
			return format{}, errors.New("--min-score selects episodes with a score, and --errored adds those " +
				"without: choose one")
		}
	}
	if o.out == "" && o.format != formats[0].name {
		return format{}, fmt.Errorf("--format %s writes a file or a folder: name it with -O", o.format)
	}
	return formats[i], nil
}

// exporter exports runs.
type exporter struct {
	options
	reader *reader
	runs   []*source.LoadedRun
	meter  *view.Meter
	// exported counts the episodes that were written, and left those without a score that were not.
	exported, left int
}

func (e *exporter) export(ctx context.Context, to format, stdout io.Writer) error {
	switch {
	case to.folder != nil:
		return newFolder(e.out, func(f *folder) error { return e.writeRuns(ctx, to.folder(f)) })
	case e.out == "":
		return e.writeRuns(ctx, to.file(stdout))
	}
	return cli.ReplaceFile(e.out, func(w io.Writer) error { return e.writeRuns(ctx, to.file(w)) })
}

// writeRuns writes the selected episodes of all runs.
func (e *exporter) writeRuns(ctx context.Context, w writer) error {
	total := int64(0)
	for _, run := range e.runs {
		if counts := run.Status.Episodes; counts != nil {
			total += counts.Scored + counts.Failed + counts.Errored
		}
	}
	read, played := int64(0), map[string]bool{}
	for _, run := range e.runs {
		var err error
		if e.reader.objections, err = run.Objections(ctx); err != nil {
			return err
		}
		for stored, err := range run.Episodes(ctx) {
			if err == nil {
				err = e.writeEpisode(ctx, w, run, stored)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			read++
			played[strings.ToLower(stored.Task)] = true
			e.meter.Set(view.Progress{Ended: read, Total: max(total, read)})
		}
	}
	if err := cli.CheckPlayed("the runs have", "task", e.tasks, played); err != nil {
		return err
	}
	if e.exported == 0 {
		return errors.New("no episode is selected of " + view.FormatCount(int(read), "episode") + e.leftOut())
	}
	return w.close()
}

// writeEpisode writes an episode if it is selected.
func (e *exporter) writeEpisode(ctx context.Context, w writer, run *source.LoadedRun, stored record.Episode) error {
	if !cli.IsAmong(e.tasks, stored.Task) {
		return nil
	}
	if stored.Outcome == score.Errored && !e.errored {
		e.left++
		return nil
	}
	if e.minScore != "" && source.ToMicroPoints(*stored.Score) < e.minimum {
		return nil
	}
	t, err := e.reader.replayEpisode(ctx, run, stored)
	if err == nil {
		err = w.add(t)
	}
	if err != nil {
		return fmt.Errorf("exporting episode %d of run %s: %w", stored.Index, run.Name, err)
	}
	e.exported++
	return nil
}

// reportCounts says what was written.
func (e *exporter) reportCounts(w io.Writer) {
	text := "exported " + view.FormatCount(e.exported, "episode") + " of " + view.FormatCount(len(e.runs), "run")
	if e.out != "" {
		text += " to " + e.out
	}
	fmt.Fprintln(w, text+e.leftOut())
}

func (e *exporter) leftOut() string {
	if e.left == 0 {
		return ""
	}
	return "; " + view.FormatCount(e.left, "episode") + " without a score left out (--errored adds them)"
}
