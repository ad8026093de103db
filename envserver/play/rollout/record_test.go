package rollout

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/tasks"
)

// recorded plays the plan's first shard and returns its records by index.
func recorded(t *testing.T, cfg Config) map[int64]record.Episode {
	t.Helper()
	var mu sync.Mutex
	episodes := map[int64]record.Episode{}
	cfg.Record = func(e record.Episode) {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := episodes[e.Index]; twice {
			t.Errorf("episode %d is recorded twice", e.Index)
		}
		episodes[e.Index] = e
	}
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return episodes
}

// Every planned episode is recorded once, and playing its actions again gives the recorded grade.
func TestRecords(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 3, 2, 1)
	episodes := recorded(t, config(t, p, policy.Heuristic, pod))
	for planned := range p.Shard(0) {
		e, ok := episodes[planned.Index]
		if !ok {
			t.Errorf("episode %d isn't recorded", planned.Index)
			continue
		}
		want := record.Episode{Index: planned.Index, Environment: "ticket", Task: planned.Task,
			Scenario: planned.Scenario, Trial: planned.Trial, Seed: planned.Seed, Attempts: 1}
		if diff := cmp.Diff(want, e, cmpopts.IgnoreFields(record.Episode{}, "Run", "EpisodeID", "RewardMode", "Turns",
			"Grade", "Receipt")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		again, err := record.RegradeEpisode(t.Context(), kind, e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e.Grade, again.Grade); diff != "" || e.Outcome != score.Scored {
			t.Errorf("the grade of episode %d, played again (-was +is)\n%s", e.Index, diff)
		}
		if diff := cmp.Diff(e.Turns, again.Turns); diff != "" {
			t.Errorf("the turns of episode %d, played again (-was +is)\n%s", e.Index, diff)
		}
	}
}

// An episode that remains errored is recorded with its class and without a score. Its actions are
// enough to score it later.
func TestErroredEpisodesAreRecorded(t *testing.T) {
	kind := ticketKind(t, brokenJudge{})
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 1, 1, 1)
	errored := 0
	for _, e := range recorded(t, config(t, p, policy.Oracle, pod)) {
		if e.Task != tasks.TicketResolve {
			continue
		}
		errored++
		if e.Outcome != score.Errored || e.Class != score.ClassJudgeFailed || e.Score != nil || e.Attempts != 3 {
			t.Errorf("record %+v of an episode without a verdict", e)
		}
		again, err := record.RegradeEpisode(t.Context(), ticketKind(t, offline.New()), e)
		if err != nil || again.Score == nil || *again.Score < 0.9 {
			t.Errorf("judged later: %+v, %v", again.Grade, err)
		}
	}
	if errored != 1 {
		t.Errorf("%d episodes of %s recorded, want 1", errored, tasks.TicketResolve)
	}
}

// An attempt without a receipt has a score that doesn't count: the pool has counted an earlier
// attempt, whose reply was lost.
func TestUnsignedEndsAreRecordedAsReplayed(t *testing.T) {
	points := 0.5
	for name, tc := range map[string]struct {
		receipt, class string
		want           bool
	}{
		"signed":  {"c2lnbmVk", "", false},
		"another": {"", "", true},
		"errored": {"", score.ClassTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			var got record.Episode
			s := &shard{Config: Config{Record: func(e record.Episode) { got = e }}}
			var p played
			p.end.Metadata.Outcome, p.end.Metadata.EpisodeScore = score.Scored, &points
			p.end.Metadata.Receipt = tc.receipt
			s.recordEpisode(job{attempts: 2}, p, tc.class, 0)
			if got.Replayed != tc.want {
				t.Errorf("replayed is %t, want %t", got.Replayed, tc.want)
			}
		})
	}
}

// slowSpeaker is a model that answers after a time.
type slowSpeaker struct{ clock Clock }

func (s slowSpeaker) Act(ctx context.Context, _ policy.Turn) (json.RawMessage, error) {
	return json.RawMessage(`{}`), s.clock.Sleep(ctx, 1500*time.Millisecond)
}

func (slowSpeaker) Answer() record.Answer { return record.Answer{Said: "well"} }

// The answer of a model is recorded with how long it took. Policies that say nothing have none.
func TestAnswersHaveTheirDuration(t *testing.T) {
	clock := sleepingClock()
	w := &worker{shard: &shard{Config: Config{Clock: clock}}}
	if _, err := w.chooseAction(t.Context(), slowSpeaker{clock}, policy.Turn{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record.Answer{Said: "well", DurationMS: 1500}, w.answerOf(slowSpeaker{clock})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(record.Answer{}, w.answerOf(nil)); diff != "" {
		t.Errorf("of a policy that says nothing (-want +got)\n%s", diff)
	}
}
