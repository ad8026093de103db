package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
)

// faulty wraps a kind. It calls trouble before each reset and step.
type faulty struct {
	episode.Kind
	trouble func(opts episode.Options, step int) error
}

func (f faulty) New() episode.Environment {
	return &faultyEnvironment{Environment: f.Kind.New(), faulty: f}
}

type faultyEnvironment struct {
	episode.Environment
	faulty faulty
	opts   episode.Options
	step   int
}

func (e *faultyEnvironment) Reset(opts episode.Options) (episode.Result, error) {
	e.opts, e.step = opts, 0
	if err := e.faulty.trouble(opts, 0); err != nil {
		return episode.Result{}, err
	}
	return e.Environment.Reset(opts)
}

func (e *faultyEnvironment) Step(ctx context.Context, action json.RawMessage) (episode.Result, error) {
	e.step++
	if err := e.faulty.trouble(e.opts, e.step); err != nil {
		return episode.Result{}, err
	}
	return e.Environment.Step(ctx, action)
}

// attempt returns the number of the attempt in an episode id.
func attempt(opts episode.Options) string {
	return opts.EpisodeID[strings.LastIndex(opts.EpisodeID, "-")+1:]
}

func TestErroredEpisodesAreRetried(t *testing.T) {
	kind := faulty{ticketKind(t, offline.New()), func(opts episode.Options, step int) error {
		switch {
		case step == 0 && attempt(opts) == "1", step == 2 && attempt(opts) == "2":
			return errors.New("a backend was lost")
		}
		return nil
	}}
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 4, 1, 1)
	p.Tasks = p.Tasks[1:2] // ticket-resolve, which takes three steps
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Scored != 4 || summary.Retried != 8 || len(summary.Errored) != 0 {
		t.Errorf("%d scored, %d retried, errored %v; want 4, 8, none", l.Scored, summary.Retried, summary.Errored)
	}
}

// flakyJudge fails twice for each reply before it judges it.
type flakyJudge struct {
	sound *offline.Judge
	mu    sync.Mutex
	calls map[string]int
}

func (f *flakyJudge) Name() string { return f.sound.Name() }

func (f *flakyJudge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[c.Reply]++
	if f.calls[c.Reply] < episode.MaxJudgeFailures {
		return grader.Verdict{Status: grader.StatusError}, errors.New("the judge is busy")
	}
	return f.sound.Judge(ctx, c)
}

// TestJudgeFailuresCostNoEpisode makes every judgement fail twice: the action is sent again, and
// the episode isn't played again.
func TestJudgeFailuresCostNoEpisode(t *testing.T) {
	kind := ticketKind(t, &flakyJudge{sound: offline.New(), calls: map[string]int{}})
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 4, 1, 1)
	p.Tasks = p.Tasks[1:2] // ticket-resolve
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Scored != 4 || l.Opened != 4 || summary.Retried != 0 || len(summary.Errored) != 0 {
		t.Errorf("%d opened, %d scored, %d retried, errored %v; want 4, 4, 0, none", l.Opened, l.Scored,
			summary.Retried, summary.Errored)
	}
}

// brokenJudge always fails.
type brokenJudge struct{}

func (brokenJudge) Name() string { return "broken" }

func (brokenJudge) Judge(context.Context, grader.Case) (grader.Verdict, error) {
	return grader.Verdict{Status: grader.StatusError}, errors.New("the judge is away")
}

func TestErrorsAreReportedByClass(t *testing.T) {
	p := plan(t, ticketKind(t, brokenJudge{}), 6, 1, 1)
	p.Tasks = p.Tasks[:2] // of one ticket each
	resolve := map[string][]int64{}
	var indexes []int64
	for ep := range p.Shard(0) {
		if ep.Task == "ticket-resolve" {
			indexes = append(indexes, ep.Index)
		}
	}
	resolve[score.ClassJudgeFailed], resolve[score.ClassEnvironment] = indexes[:2], indexes[2:4]
	resolve[score.ClassPolicy], resolve[score.ClassTimeout] = indexes[4:5], indexes[5:]
	is := func(class string, index int64) bool {
		return slices.Contains(resolve[class], index)
	}
	kind := faulty{ticketKind(t, brokenJudge{}), func(opts episode.Options, step int) error {
		for _, index := range resolve[score.ClassEnvironment] {
			if step == 1 && strings.HasPrefix(opts.EpisodeID, fmt.Sprintf("run-1-%d-", index)) {
				return errors.New("a backend is lost")
			}
		}
		return nil
	}}
	_, pod := serve(t, kind, 0)
	cfg := config(t, p, policy.Oracle, pod)
	oracle := cfg.Policy
	cfg.EpisodeTimeout = 500 * time.Millisecond
	cfg.Policy = func(planned score.PlannedEpisode) (policy.Policy, error) {
		agent, err := oracle(planned)
		switch {
		case is(score.ClassPolicy, planned.Index):
			return policyFunc(func(context.Context, policy.Turn) (json.RawMessage, error) {
				return json.RawMessage("{"),
					nil
			}), nil
		case is(score.ClassTimeout, planned.Index):
			return policyFunc(func(ctx context.Context, _ policy.Turn) (json.RawMessage, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}), nil
		}
		return agent, err
	}
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	want := map[string]string{}
	for class, indexes := range resolve {
		var set score.IndexSet
		for _, i := range indexes {
			set.Add(i)
		}
		want[class] = set.String()
	}
	got := map[string]string{}
	for _, c := range summary.Errored {
		got[c.Class] = c.Episodes.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errored (-want +got):\n%s", diff)
	}
	if l := ledgerOf(t, summary); l.Scored != 6 || summary.Retried != 12 {
		t.Errorf("%d scored, %d retried; want the 6 of ticket-classify, and 2 retries of each of the 6 others",
			l.Scored, summary.Retried)
	}
}

type policyFunc func(ctx context.Context, turn policy.Turn) (json.RawMessage, error)

func (f policyFunc) Act(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
	return f(ctx, turn)
}

func TestRefusedActionsFailTheEpisode(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 1, 1, 1)
	cfg := config(t, p, policy.Noop, pod)
	var refused atomic.Int64
	cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) {
		return policyFunc(func(_ context.Context, turn policy.Turn) (json.RawMessage, error) {
			if strings.Contains(turn.Refused, "action_type") {
				refused.Add(1)
			}
			return json.RawMessage(`{"action_type":"dance"}`), nil
		}), nil
	}
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Failed != 3 || refused.Load() != 3*(episode.MaxInvalidActions-1) {
		t.Errorf("%d failed, %d refusals; want 3, %d", l.Failed, refused.Load(), 3*(episode.MaxInvalidActions-1))
	}
}
