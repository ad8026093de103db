package episodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/modelflags"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// keptJudge is the value of --judge that selects the recorded verdicts.
const keptJudge = "kept"

// NewRegradeCommand returns the command that grades recorded episodes again.
func NewRegradeCommand() *cobra.Command {
	r := regrader{judge: modelflags.DefaultJudge(), tally: tally{reasons: map[string]int{}}}
	r.judge.Type = keptJudge
	var out string
	cmd := &cobra.Command{
		Use:   "regrade FILE",
		Short: "Grade recorded episodes again, with the scenarios and grader of this version",
		Args:  cli.RequireArguments("FILE"),
	}
	cli.SetHelp(cmd, "regrade")
	flags := cmd.Flags()
	packs := cli.PackFlag(flags)
	r.judge.AddFlags(flags)
	flags.Lookup("judge").Usage = "judge of replies: kept (the recorded verdicts), offline (facts compared " +
		"exactly; the letter not judged) or llm (letter judged by a language model)"
	flags.StringVarP(&out, "out", "O", "", "`file` for the regraded records; standard output when absent")
	flags.StringSliceVar(&r.only, "only", nil, "grade only errored episodes of these `classes`, such as "+
		"judge_failed; the others are copied")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		r.kinds = transcript.NewKinds(catalog)
		return r.regradeFile(cmd, args[0], out)
	}
	return cmd
}

// regrader grades episodes again.
type regrader struct {
	judge modelflags.Judge
	only  []string
	kinds *transcript.Kinds
	tally tally
}

func (r *regrader) regradeFile(cmd *cobra.Command, path, out string) error {
	for _, class := range r.only {
		if !slices.Contains(score.ErrorClasses(), class) {
			return fmt.Errorf("--only is %q: choose one of %s", class, strings.Join(score.ErrorClasses(), ", "))
		}
	}
	if err := r.chooseJudge(); err != nil {
		return err
	}
	if out != "" && cli.SameFile(path, out) {
		return fmt.Errorf("--out %s is also the input file: choose another file", out)
	}
	in, finish, err := recordsOf(cmd.Context(), cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	defer finish()
	write := func(w io.Writer) error { return r.regradeAll(cmd.Context(), in, record.NewWriter(w)) }
	if out == "" {
		err = write(cmd.OutOrStdout())
	} else {
		err = cli.ReplaceFile(out, write)
	}
	if err != nil {
		return err
	}
	r.tally.print(cmd.ErrOrStderr())
	if r.tally.skipped > 0 || r.tally.errored > 0 || r.tally.foreign > 0 {
		return cli.ErrOutcome
	}
	return nil
}

// recordsOf opens records by path and returns a function that closes them.
func recordsOf(ctx context.Context, stdin io.Reader, path string) (iter.Seq2[record.Episode, error], func(), error) {
	if path == "-" {
		return record.Read(stdin), func() {}, nil
	}
	if info, err := os.Stat(path); strings.Contains(path, "://") || err == nil && info.IsDir() {
		return storedRecords(ctx, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading records: %w", err)
	}
	return record.Read(file), func() { _ = file.Close() }, nil
}

// storedRecords reads the records of all runs of a store.
func storedRecords(ctx context.Context, location string) (iter.Seq2[record.Episode, error], func(), error) {
	store, err := source.OpenStored(ctx, location)
	if err != nil {
		return nil, nil, err
	}
	runs, err := store.Runs(ctx)
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("%s contains no run: give a folder with a manifest.json at most two levels below", location)
	}
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return func(yield func(record.Episode, error) bool) {
		for _, run := range runs {
			for e, err := range store.Episodes(ctx, run) {
				if !yield(e, err) {
					return
				}
			}
		}
	}, func() { _ = store.Close() }, nil
}

func (r *regrader) chooseJudge() (err error) {
	if r.judge.Type == keptJudge {
		return r.judge.Stray()
	}
	r.judge.FromEnvironment(os.LookupEnv)
	if err := r.judge.Validate(); err != nil {
		return err
	}
	r.kinds.Judge, err = r.judge.New()
	return err
}

func (r *regrader) regradeAll(ctx context.Context, in iter.Seq2[record.Episode, error], out *record.Writer) error {
	for e, err := range in {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, record.ErrTruncated):
			r.tally.skip(record.ErrTruncated)
			continue
		case errors.Is(err, record.ErrNotRecord):
			if r.tally.foreign++; r.tally.foreign == 1 {
				r.tally.firstForeign = err
			}
			continue
		case err != nil:
			return err
		}
		again, err := r.regrade(ctx, e)
		if err != nil {
			return err
		}
		if err := out.Write(again); err != nil {
			return err
		}
	}
	if r.tally.episodes == 0 && r.tally.foreign > 0 {
		return fmt.Errorf("reading records: the input contains none: %w", r.tally.firstForeign)
	}
	return nil
}

// regrade grades one episode again, or returns it unchanged if that is impossible.
func (r *regrader) regrade(ctx context.Context, e record.Episode) (record.Episode, error) {
	r.tally.episodes++
	if len(r.only) > 0 && !slices.Contains(r.only, e.Class) {
		r.tally.passed++
		return e, nil
	}
	again, err := r.play(ctx, e)
	if ctx.Err() != nil {
		return record.Episode{}, ctx.Err()
	}
	if err != nil {
		r.tally.skip(err)
		return e, nil
	}
	r.tally.count(e.Grade, again.Grade)
	return again, nil
}

// errNoVerdict means that an episode has no recorded verdict because its judge failed.
var errNoVerdict = errors.New("no verdict is recorded: choose a judge with --judge")

// errUnfit means that the recorded verdicts are of other replies or another scale, or don't cover
// the criteria of this version.
var errUnfit = errors.New("the recorded verdicts don't match the replies: choose a judge with --judge")

func (r *regrader) play(ctx context.Context, e record.Episode) (record.Episode, error) {
	// The rules alone would use another scale than the run.
	if r.kinds.Judge == nil && e.Outcome == score.Errored && len(e.Verdicts) == 0 {
		return record.Episode{}, errNoVerdict
	}
	kind, err := r.kinds.For(e)
	if err != nil {
		return record.Episode{}, err
	}
	again, err := record.RegradeEpisode(ctx, kind, e)
	if err == nil && r.kinds.Judge == nil && again.Outcome == score.Errored {
		return record.Episode{}, errUnfit
	}
	return again, err
}

// tally counts the episodes by the result of grading them again.
type tally struct {
	episodes, regraded, changed, passed, errored, skipped int
	// before and after are the sums of scores, over the episodes that have both.
	before, after float64
	both          int
	reasons       map[string]int
	// foreign counts the lines that aren't records.
	foreign      int
	firstForeign error
}

// skip counts an episode that keeps its grade, by reason.
func (t *tally) skip(err error) {
	t.skipped++
	reason := err.Error()
	for _, known := range []error{record.ErrUnfinished, record.ErrTruncated, episode.ErrUnknownTask,
		episode.ErrUnknownScenario, errNoVerdict, errUnfit} {
		if errors.Is(err, known) {
			reason = known.Error()
		}
	}
	t.reasons[reason]++
}

func (t *tally) count(before, after record.Grade) {
	t.regraded++
	if after.Outcome == score.Errored {
		t.errored++
		return
	}
	if before.Score == nil || *before.Score != *after.Score {
		t.changed++
	}
	if before.Score != nil {
		t.both++
		t.before += *before.Score
		t.after += *after.Score
	}
}

func (t *tally) print(w io.Writer) {
	fmt.Fprintf(w, "%d episodes: %d graded again (%d with another score, %d without a score), %d passed through, "+
		"%d not gradable\n", t.episodes, t.regraded, t.changed, t.errored, t.passed, t.skipped)
	if t.both > 0 {
		n := float64(t.both)
		fmt.Fprintf(w, "mean score of %d episodes: %.4f before, %.4f now\n", t.both, t.before/n, t.after/n)
	}
	for _, reason := range view.SortedKeys(t.reasons) {
		view.WriteParagraph(w, "  ", fmt.Sprintf("%d not gradable: %s", t.reasons[reason], reason))
	}
	if t.foreign > 0 {
		view.WriteParagraph(w, "  ", fmt.Sprintf("%s skipped because they aren't records; the first: %v",
			view.FormatCount(t.foreign, "line"), t.firstForeign))
	}
}
