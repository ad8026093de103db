package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/judgeflags"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
)

// keptJudge is the value of --judge that grades from the verdicts on record.
const keptJudge = "kept"

func newRegradeCommand() *cobra.Command {
	r := regrader{judge: judgeflags.Default()}
	r.judge.Type = keptJudge
	var out string
	var packs *[]string
	cmd := &cobra.Command{
		Use:   "regrade FILE",
		Short: "Grade recorded episodes again, with today's scenarios and grader",
		Long: `Grade recorded episodes again, with today's scenarios and grader.

FILE holds episodes, one JSON object a line, as they are stored (docs/results.md); - reads
standard input, and a folder or a bucket's URL all runs that are stored there. Each episode's
actions are played again, and the record is written with its new grade; the old one moves to
"before". Nobody's model is asked: replies are graded from the judge's verdicts on record, unless
--judge says otherwise.

Episodes that can't be graded again keep the grade they have and are counted: those that broke off
before their end, those of scenarios that are not loaded, and those that the verdicts on record
don't fit. Lines that hold no record are left out and counted.

Exit codes:
  0  every episode was graded
  1  some episodes could not be graded again, or remain without a score, or lines were left out
  2  not done: --out is as it was`,
		Example: `  # What would these episodes score today?
  csenv regrade episodes.jsonl -O regraded.jsonl

  # Judge only those replies that the judge failed on, by a model
  CSENV_JUDGE_API_KEY=... csenv regrade episodes.jsonl --only judge_failed,judge_timeout \
    --judge llm --judge-base-url https://api.openai.com/v1 --judge-model gpt-5-2026-01-15 \
    -O regraded.jsonl`,
		Args: oneArgument("FILE", "a file of episodes, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			catalog, err := loadCatalog(*packs)
			if err != nil {
				return err
			}
			r.catalog = catalog
			return r.regradeFile(cmd, args[0], out)
		},
	}
	flags := cmd.Flags()
	packs = addPackFlag(flags)
	r.judge.AddFlags(flags)
	flags.Lookup("judge").Usage = "who grades replies: kept (from the verdicts on record), offline (the rules alone) " +
		"or llm (the rules and a language model)"
	flags.StringVarP(&out, "out", "O", "", "`file` for the regraded records; standard output when absent")
	flags.StringSliceVar(&r.only, "only", nil, "grade only errored episodes of these `classes`, such as "+
		"judge_failed; the others are passed through")
	return cmd
}

// regrader grades episodes again.
type regrader struct {
	judge   judgeflags.Options
	catalog *scenarios.Catalog
	only    []string

	rules *grader.Offline
	// shared is the judge of all episodes, nil where each has its own verdicts.
	shared grader.Judge
	// kinds are the environments of the shared judge.
	kinds map[string]episode.Kind

	tally tally
}

// tally counts what became of the episodes.
type tally struct {
	episodes, regraded, changed, passed, errored, skipped int
	// before and after are the sums of the scores of the episodes that have both.
	before, after float64
	both          int
	reasons       map[string]int
	// foreign are the lines that hold no record; they are left out.
	foreign      int
	firstForeign error
}

func (r *regrader) regradeFile(cmd *cobra.Command, path, out string) error {
	for _, class := range r.only {
		if !slices.Contains(score.ErrorClasses(), class) {
			return fmt.Errorf("--only is %q: choose of %s", class, strings.Join(score.ErrorClasses(), ", "))
		}
	}
	if err := r.prepare(); err != nil {
		return err
	}
	in, finish, err := recordsOf(cmd.Context(), cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	defer finish()
	if out == "" {
		if err := r.regradeAll(cmd.Context(), in, record.NewWriter(cmd.OutOrStdout())); err != nil {
			return err
		}
	} else {
		if sameFile(path, out) {
			return fmt.Errorf("--out %s is the file that is read: name another one", out)
		}
		if err := replaceFile(out, func(to io.Writer) error {
			return r.regradeAll(cmd.Context(), in,
				record.NewWriter(to))
		}); err != nil {
			return err
		}
	}
	r.tally.print(cmd.ErrOrStderr())
	if r.tally.skipped > 0 || r.tally.errored > 0 || r.tally.foreign > 0 {
		return errOutcome
	}
	return nil
}

// recordsOf reads records where a path says, and what ends the reading.
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
	store, err := openStored(ctx, location)
	if err != nil {
		return nil, nil, err
	}
	runs, err := store.Runs(ctx)
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf(
			"no run is stored at %s: name a folder with a manifest.json in it or at most two folders below", location)
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

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// replaceFile has a file written as a whole: a failure leaves the one that was there. What isn't a
// plain file, such as a pipe, is written to as it is.
func replaceFile(path string, write func(io.Writer) error) error {
	plain, mode := true, os.FileMode(0o666) // less the umask
	if info, err := os.Stat(path); err == nil {
		plain, mode = info.Mode().IsRegular(), info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return fmt.Errorf("writing records: %w", err)
		}
	}
	target, flags := path, os.O_WRONLY
	if plain {
		target, flags = fmt.Sprintf("%s.%d.tmp", path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL
	}
	file, err := os.OpenFile(target, flags, mode)
	if err != nil {
		return fmt.Errorf("writing records: %w", err)
	}
	err = write(file)
	if closed := file.Close(); err == nil && closed != nil {
		err = fmt.Errorf("writing records: %w", closed)
	}
	if !plain {
		return err
	}
	if err == nil {
		err = os.Rename(target, path)
	}
	if err != nil {
		_ = os.Remove(target) // the first error is the one to tell
	}
	return err
}

func (r *regrader) prepare() error {
	r.rules, r.kinds, r.tally.reasons = grader.NewOffline(), map[string]episode.Kind{}, map[string]int{}
	if r.judge.Type == keptJudge {
		return r.judge.Stray()
	}
	r.judge.FromEnvironment(os.LookupEnv)
	if err := r.judge.Validate("ticket"); err != nil {
		return err
	}
	var err error
	r.shared, _, err = r.judge.New()
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
			r.tally.strange(err)
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
		return fmt.Errorf("reading records: there are none: %w", r.tally.firstForeign)
	}
	return nil
}

// regrade grades one episode again, or returns it as it is where that can't be.
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

// errNoVerdict means that the verdicts on record can't grade an episode: its judge failed.
var errNoVerdict = errors.New("no verdict was kept: name a judge with --judge")

// errUnfit means that the verdicts on record are of other replies, on another scale, or don't
// answer what today's rules leave open.
var errUnfit = errors.New("the verdicts on record don't fit: name a judge with --judge")

func (r *regrader) play(ctx context.Context, e record.Episode) (record.Episode, error) {
	// The rules alone would score it on a scale that its run wasn't scored on.
	if r.shared == nil && e.Outcome == score.Errored && len(e.Verdicts) == 0 {
		return record.Episode{}, errNoVerdict
	}
	kind, err := r.kindFor(e)
	if err != nil {
		return record.Episode{}, err
	}
	again, err := record.Regrade(ctx, kind, e)
	if err == nil && r.shared == nil && again.Outcome == score.Errored {
		return record.Episode{}, errUnfit
	}
	return again, err
}

// kindFor makes the environment that the episode is played in again.
func (r *regrader) kindFor(e record.Episode) (episode.Kind, error) {
	judge := r.shared
	if judge == nil && strings.HasPrefix(e.Judge, "llm:") {
		kept, err := verdictsOf(e)
		if err != nil {
			return nil, err
		}
		return ticket.New(r.catalog, llm.NewReplay(r.rules, e.Judge, kept...))
	}
	if judge == nil {
		judge = r.rules
	}
	if kind := r.kinds[e.Environment]; kind != nil {
		return kind, nil
	}
	var kind episode.Kind
	var err error
	switch e.Environment {
	case "ticket":
		kind, err = ticket.New(r.catalog, judge)
	case "workflow":
		kind, err = workflow.New(r.catalog, r.rules)
	default:
		return nil, fmt.Errorf("the environment is %q: this csenv knows ticket and workflow", e.Environment)
	}
	r.kinds[e.Environment] = kind
	return kind, err
}

func verdictsOf(e record.Episode) ([]grader.Verdict, error) {
	kept := make([]grader.Verdict, len(e.Verdicts))
	for i, raw := range e.Verdicts {
		if err := json.Unmarshal(raw, &kept[i]); err != nil {
			return nil, fmt.Errorf("reading a verdict: %w", err)
		}
	}
	return kept, nil
}

// skip counts an episode that keeps the grade it has. Episodes with the same reason are counted
// together.
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

// strange counts a line that holds no record.
func (t *tally) strange(err error) {
	if t.foreign++; t.foreign == 1 {
		t.firstForeign = err
	}
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
	fmt.Fprintf(w, "%d episodes: %d graded again (%d with another score, %d without a score), %d passed through, %d "+
		"not gradable\n",
		t.episodes, t.regraded, t.changed, t.errored, t.passed, t.skipped)
	if t.both > 0 {
		fmt.Fprintf(w, "mean score of %d episodes: %.4f before, %.4f now\n", t.both, t.before/float64(t.both),
			t.after/float64(t.both))
	}
	for _, reason := range slices.Sorted(maps.Keys(t.reasons)) {
		fmt.Fprintf(w, "  %d not gradable: %s\n", t.reasons[reason], reason)
	}
	if t.foreign > 0 {
		fmt.Fprintf(w, "  %s left out, not a record; the first is %v\n", count(t.foreign, "line"), t.firstForeign)
	}
}
