package ledger

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// newTestRollouts returns the rollouts of a server without sessions.
func newTestRollouts() *Rollouts {
	return NewRollouts(echo.Kind{}, "support-a", echo.LedgerKey(), slog.New(slog.DiscardHandler))
}

// end counts the end of an episode of a tag.
func (s *Rollouts) end(tb testing.TB, tag string) {
	tb.Helper()
	if _, err := (SegmentRecorder{s, tag}).Finish(score.PlannedEpisode{Task: "talk", Scenario: "E01"},
		score.Episode{Outcome: score.Scored, Score: score.One}); err != nil {
		tb.Fatal(err)
	}
}

// ask collects the segment of a tag for a run.
func (s *Rollouts) ask(tb testing.TB, tag, run string, ack int64) score.Segment {
	tb.Helper()
	instance := ""
	if r := s.byTag[tag]; r != nil {
		instance = r.instance
	}
	segment, err := s.Collect(score.CollectRequest{Tag: tag, Run: run, PassScore: score.One, Instance: instance,
		Ack: ack})
	if err != nil {
		tb.Fatal(err)
	}
	return segment
}

// Unknown tags never evict a tag that a run is collecting.
func TestTagsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestRollouts()
		s.end(t, "first")
		elapse(time.Second)
		for i := range maxTags - 1 {
			tag := fmt.Sprintf("collected-%d", i)
			if _, err := s.Open(tag); err != nil {
				t.Fatal(err)
			}
			s.ask(t, tag, "uid", 0)
		}
		s.end(t, "second") // evicts the first
		if s.byTag["first"] != nil || s.dropped != 1 || s.remembered != 1 {
			t.Errorf("the uncollected tag is kept, or %d episodes are dropped and %d stored", s.dropped,
				s.remembered)
		}
		s.ask(t, "second", "uid", 0)
		if _, err := s.Open("third"); err == nil || !strings.Contains(err.Error(), "fewer runs") {
			t.Errorf("a tag beyond the maximum is opened with %v", err)
		}
		if _, err := s.Open("collected-0"); err != nil {
			t.Errorf("an existing tag: %v", err)
		}
		elapse(collectorSilence)
		if _, err := s.Open("third"); err != nil {
			t.Errorf("a tag that is no longer collected is not evicted: %v", err)
		}
		elapse(ledgerTTL)
		s.Expire(time.Now())
		if got := s.Figures().Tags; got != 0 || s.remembered != 0 {
			t.Errorf("%d tags and %d episodes are left after %v", got, s.remembered, ledgerTTL)
		}
	})
}

// One namespace can't keep the runs of another out by collecting all tags.
func TestNamespacesShareTheTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestRollouts()
		collect := func(tag string) error {
			if _, err := s.Open(tag); err != nil {
				return err
			}
			s.ask(t, tag, "uid", 0)
			elapse(time.Millisecond)
			return nil
		}
		for i := range maxTags {
			if err := collect(fmt.Sprintf("greedy/run-%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if collect("greedy/another") == nil {
			t.Error("a namespace evicts its own collected tags")
		}
		for i := range maxTags / 2 {
			if err := collect(fmt.Sprintf("late/run-%d", i)); err != nil {
				t.Fatalf("run %d of another namespace: %v", i, err)
			}
		}
		if collect("late/another") == nil || s.byTag["greedy/run-63"] == nil || s.byTag["greedy/run-0"] != nil {
			t.Error("the second namespace has more than its share, or the oldest tags are kept")
		}
		if err := collect("third/run"); err != nil || len(s.byTag) != maxTags {
			t.Errorf("a third namespace: %v, %d tags", err, len(s.byTag))
		}
	})
}

// A tag whose run is suspended is evicted after all tags that no run has requested, even more
// recent ones. The metrics count its dropped episodes, sealed or not.
func TestTagsOfSilentRunsAreEvictedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestRollouts()
		for i := range maxTags {
			tag := fmt.Sprintf("suspended-%d", i)
			s.end(t, tag)
			s.ask(t, tag, "uid", 0)
			s.end(t, tag)
			elapse(time.Millisecond)
			if i == 0 {
				s.end(t, "made-up")
			}
		}
		if s.byTag["made-up"] != nil || s.byTag["suspended-0"] == nil || s.dropped != 1 {
			t.Errorf("a tag that no run requested is kept, or %d episodes are dropped", s.dropped)
		}
		elapse(collectorSilence)
		for i := range maxTags {
			s.end(t, fmt.Sprintf("made-up-%d", i))
		}
		if len(s.byTag) != maxTags || s.byTag["suspended-0"] != nil || s.byTag["suspended-1"] == nil ||
			s.dropped != 1+2+(maxTags-1) {
			t.Errorf("%d episodes are dropped of %d tags", s.dropped, len(s.byTag))
		}
	})
}

// Requests of runs without episodes create no tags.
func TestRequestsCreateNoTag(t *testing.T) {
	s := newTestRollouts()
	for i := range 2 * maxTags {
		if segment := s.ask(t, fmt.Sprintf("idle-%d", i), "uid", 0); segment != (score.Segment{Pod: "support-a"}) {
			t.Errorf("%+v", segment)
		}
	}
	s.end(t, "grpo-7")
	if segment := s.ask(t, "grpo-7", "uid", 0); len(s.byTag) != 1 || opened(t, segment).Scored != 1 {
		t.Errorf("%d tags, %+v", len(s.byTag), segment)
	}
}

// The next segment reports episodes that exceed the bound. They don't displace episodes of
// collected tags.
func TestUncollectedEpisodesAreBounded(t *testing.T) {
	s := newTestRollouts()
	for range maxUncollectedOfTag + 3 {
		s.end(t, "grpo-7")
	}
	segment := s.ask(t, "grpo-7", "uid", 0)
	if l := opened(t, segment); l.Scored != maxUncollectedOfTag || segment.Dropped != 3 {
		t.Errorf("%d episodes and %d dropped, want %d and 3", l.Scored, segment.Dropped, maxUncollectedOfTag)
	}
	for i := range maxUncollected {
		s.end(t, fmt.Sprintf("made-up-%d", i%8))
	}
	s.end(t, "made-up-0")
	if s.remembered != maxUncollected || s.byTag["made-up-0"].dropped != 1 {
		t.Errorf("%d episodes stored, want %d and one dropped", s.remembered, maxUncollected)
	}
	s.end(t, "grpo-7")
	if next := s.ask(t, "grpo-7", "uid", 1); opened(t, next).Scored != 1 || next.Dropped != 0 {
		t.Errorf("invented tags displace a collected one: %+v", next)
	}
}

// A run that was created again with the same name begins with the open episodes, without the
// segment of the earlier run. The number of a segment shows whether another run got one.
func TestRunOfTheSameName(t *testing.T) {
	s := newTestRollouts()
	s.end(t, "grpo-7")
	first := s.ask(t, "grpo-7", "first", 0)
	s.end(t, "grpo-7")
	got := s.ask(t, "grpo-7", "uid", 0)
	if got.Number != 2 || got.Instance != first.Instance || opened(t, got).Scored != 1 {
		t.Errorf("%+v", got)
	}
}

// After a tag was deleted, numbers start again with another instance, so that a run that was
// suspended for long doesn't mistake new segments for old ones.
func TestDeletedTagGetsAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestRollouts()
		s.end(t, "grpo-7")
		before := s.ask(t, "grpo-7", "uid", 0)
		elapse(ledgerTTL)
		s.Expire(time.Now())
		s.end(t, "grpo-7")
		after, err := s.Collect(score.CollectRequest{Tag: "grpo-7", Run: "uid", PassScore: score.One,
			Instance: before.Instance, Ack: before.Number})
		if err != nil || after.Instance == before.Instance || after.Number != 1 || opened(t, after).Scored != 1 {
			t.Errorf("%+v, %v", after, err)
		}
	})
}

// Scenarios that exceed a ledger's maximum are dropped and reported, and the next segment is valid.
func TestSegmentTooLargeIsDropped(t *testing.T) {
	s := newTestRollouts()
	for i := range 4000 {
		if _, err := (SegmentRecorder{s, "grpo-7"}).Finish(score.PlannedEpisode{Task: "talk", Scenario: fmt.Sprintf(
			"a-scenario-of-a-long-name-%04d", i)}, score.Episode{Outcome: score.Scored}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (SegmentRecorder{s, "grpo-7"}).Finish(score.PlannedEpisode{},
		score.Episode{Outcome: score.Errored}); err != nil {
		t.Fatal(err)
	}
	segment := s.ask(t, "grpo-7", "uid", 0)
	if l := opened(t, segment); segment.Dropped != 4000 || l.Scored != 0 || l.Opened != 1 {
		t.Errorf("%d dropped, %d scored, %d opened", segment.Dropped, l.Scored, l.Opened)
	}
	s.end(t, "grpo-7")
	if next := s.ask(t, "grpo-7", "uid", 1); opened(t, next).Scored != 1 || next.Dropped != 0 {
		t.Errorf("%+v", next)
	}
}

// opened verifies a segment and returns its ledger.
func opened(tb testing.TB, segment score.Segment) *score.Ledger {
	tb.Helper()
	if segment.Ledger == nil {
		tb.Fatal("the segment has no ledger")
	}
	l, err := segment.Verify("uid", segment.Pod, echo.LedgerKey().Public().(ed25519.PublicKey))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Every episode is collected once, even if messages are lost and the collector restarts from its
// last stored state.
func TestRolloutsAreCollectedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTestRollouts()
		// the collector's stored state, with the number of the last segment as its shard
		written, ended := score.Ledger{}, int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"an episode ends": func(t *rapid.T) {
				ended++
				outcome := rapid.SampledFrom([]score.Outcome{score.Scored, score.Failed, score.Errored}).Draw(t,
					"outcome")
				if _, err := (SegmentRecorder{s, "grpo-7"}).Finish(score.PlannedEpisode{Task: "talk", Scenario: "E01"},
					score.Episode{Outcome: outcome}); err != nil {
					t.Fatal(err)
				}
			},
			"a pass": func(t *rapid.T) {
				instance := ""
				if r := s.byTag["grpo-7"]; r != nil {
					instance = r.instance
				}
				segment, err := s.Collect(question(int64(written.Shard), instance))
				if err != nil {
					t.Fatal(err)
				}
				if rapid.Bool().Draw(t, "lost") || segment.Ledger == nil {
					return
				}
				l, err := segment.Verify("uid", segment.Pod, echo.LedgerKey().Public().(ed25519.PublicKey))
				if err != nil {
					t.Fatal(err)
				}
				if segment.Number != int64(written.Shard)+1 {
					t.Fatalf("segment %d follows segment %d", segment.Number, written.Shard)
				}
				written.Opened += l.Opened
				written.Shard++
			},
			"": func(t *rapid.T) {
				waiting := int64(0)
				if r := s.byTag["grpo-7"]; r != nil {
					open := r.open
					waiting = open.Ledger(score.Ledger{}).Opened
					if r.sealed != nil && r.sealed.Number > int64(written.Shard) {
						l, err := r.sealed.Verify("uid", "support-a", echo.LedgerKey().Public().(ed25519.PublicKey))
						if err != nil {
							t.Fatal(err)
						}
						waiting += l.Opened
					}
				}
				if written.Opened+waiting != ended {
					t.Fatalf("%d episodes are collected and %d wait, of %d", written.Opened, waiting, ended)
				}
			},
		})
	})
}

// question returns the request of a run for the tag grpo-7.
func question(ack int64, instance string) score.CollectRequest {
	return score.CollectRequest{Tag: "grpo-7", Run: "uid", PassScore: 700_000, Instance: instance, Ack: ack}
}
