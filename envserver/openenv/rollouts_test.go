package openenv

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"
)

// question is that of a run for the tag grpo-7.
func question(ack int64, instance string) score.Collection {
	return score.Collection{Tag: "grpo-7", Run: "uid", PassScore: 700_000, Instance: instance, Ack: ack}
}

// askRollouts asks on the operations port, as the operator does.
func askRollouts(tb testing.TB, s *Server, q score.Collection) (score.Segment, string) {
	tb.Helper()
	answer := httptest.NewRecorder()
	s.OpsHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/rollouts?"+q.Query().Encode(), nil))
	if answer.Code != http.StatusOK {
		tb.Fatalf("%d %s", answer.Code, answer.Body)
	}
	var segment score.Segment
	if err := json.Unmarshal(answer.Body.Bytes(), &segment); err != nil {
		tb.Fatal(err)
	}
	return segment, answer.Body.String()
}

// opened verifies a segment and returns its ledger.
func opened(tb testing.TB, segment score.Segment) *score.Ledger {
	tb.Helper()
	if segment.Ledger == nil {
		tb.Fatal("the segment has no ledger")
	}
	l, err := segment.Verify("uid", segment.Pod, testKey().Public().(ed25519.PublicKey))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// What a trainer plays comes to the run that it names, as the pool graded it, with the pass score
// that only the run knows. What it abandons does not.
func TestRollouts(t *testing.T) {
	s, url := serve(t, Config{RewardMode: episode.Dense, Pod: "support-a"})
	p := connect(t, url)
	play := func(seed int, end string) {
		t.Helper()
		p.ask(fmt.Sprintf(`{"type":"reset","data":{"run":"grpo-7","seed":%d}}`, seed))
		if end != "" {
			p.ask(fmt.Sprintf(`{"type":"step","data":{"kind":%s}}`, end))
		}
	}
	play(10, `"finish","score":900000`)
	play(10, `"finish","score":700000`)
	play(11, `"failed","score":100000`)
	play(12, `"errored","score":500000`)
	play(12, `"panic"`)
	play(12, "")
	p.ask(`{"type":"reset","data":{"run":"other","seed":1}}`)
	p.ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`)
	play(13, "")
	if got := decoded(t, p.ask(`{"type":"state"}`), "data", "reward_mode"); got != "dense" {
		t.Errorf("a trainer is given %v rewards, want its own choice", got)
	}

	segment, _ := askRollouts(t, s, question(0, ""))
	if segment.Number != 1 || segment.Active != 1 || segment.Dropped != 0 || segment.Instance == "" {
		t.Errorf("%+v", segment)
	}
	want := &score.Ledger{Run: score.SegmentRun("uid", "support-a", segment.Instance), Shard: 1, PassScore: 700_000,
		ScenarioDigest: "sha256:00ff", GraderVersion: "echo.1", Judge: "rules", Opened: 5}
	for _, e := range []struct {
		planned score.PlannedEpisode
		ended   score.Episode
	}{
		{score.PlannedEpisode{Seed: 10, Scenario: "E01"}, score.Episode{Outcome: score.Scored, Score: 900_000,
			Difficulty: "easy", Language: "en"}},
		{score.PlannedEpisode{Seed: 10, Scenario: "E01"}, score.Episode{Outcome: score.Scored, Score: 700_000,
			Difficulty: "easy", Language: "en"}},
		{score.PlannedEpisode{Seed: 11, Scenario: "E02"}, score.Episode{Outcome: score.Failed, Score: 100_000,
			Difficulty: "hard", Language: "de"}},
	} {
		e.planned.Task, e.ended.Category = "talk", "billing"
		e.ended.Dimensions = []score.Dimension{{Name: "talk", Earned: e.ended.Score / 1000, Offered: 1000}}
		if err := want.Add(e.planned, e.ended); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, opened(t, segment)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := s.report().Runs; len(got) != 0 {
		t.Errorf("rollouts are reported as runs with ledgers: %+v", got)
	}
	if got := testMetric(t, s, `csenv_rollout_episodes_total{result="counted"}`); got != "4" {
		t.Errorf("%s episodes counted by the metrics, want 4", got)
	}
}

// testMetric is the value of a series.
func testMetric(t *testing.T, s *Server, series string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	s.OpsHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no series %s", series)
	return ""
}

// Every way of beginning an episode on a session takes the tag.
func TestRolloutsByEveryTransport(t *testing.T) {
	s, url := serve(t, Config{})
	const finish = `{"kind":"finish","score":1000000}`

	id := create(t, url)
	if status, body := postBody(t, url+"/reset", fmt.Sprintf(`{"session_id":%q,"seed":1,"run":"grpo-7"}`,
		id)); status != 200 {
		t.Fatal(body)
	}
	postBody(t, url+"/step", fmt.Sprintf(`{"session_id":%q,"action":%s}`, id, finish))

	p := connect(t, url)
	p.ask(`{"type":"reset","data":{"split":"train","index":0,"run":"grpo-7"}}`)
	p.ask(`{"type":"step","data":` + finish + `}`)

	p.ask(`{"type":"reset","data":{"seed":1,"run":"grpo-7"}}`)
	p.ask(`{"type":"step","data":{"type":"call_tool","tool_name":"finish","arguments":{"score":1000000}}}`)

	c, err := dialMCP(t.Context(), url+"/mcp?seed=1&run=grpo-7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "finish",
		Arguments: map[string]any{"score": 1_000_000}}); err != nil {
		t.Fatal(err)
	}

	// A request that stands alone counts for no run.
	postBody(t, url+"/step", fmt.Sprintf(`{"seed":1,"run":"grpo-7","action":%s}`, finish))
	if status, _ := postBody(t, url+"/reset", `{"seed":1,"run":"No Name"}`); status != 422 {
		t.Errorf("a tag that is no name was answered with %d", status)
	}
	segment, _ := askRollouts(t, s, question(0, ""))
	if got := opened(t, segment).Scored; got != 4 {
		t.Errorf("%d episodes are counted, want 4", got)
	}
}

// A segment stays as it is, byte by byte, until the run says that it has it.
func TestSegmentsAreHandedOutUntilAcknowledged(t *testing.T) {
	s, url := serve(t, Config{})
	p := connect(t, url)
	end := func() {
		t.Helper()
		p.ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
		p.ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`)
	}
	p.ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
	none, _ := askRollouts(t, s, question(0, ""))
	if none.Ledger != nil || none.Number != 0 || none.Instance == "" {
		t.Fatalf("before anything has ended: %+v", none)
	}
	end()
	_, first := askRollouts(t, s, question(0, none.Instance))
	end()
	for name, q := range map[string]score.Collection{
		"nothing acknowledged":                    question(0, none.Instance),
		"another process's segment":               question(1, "another"),
		"a segment of a process that isn't named": question(1, ""),
	} {
		if _, again := askRollouts(t, s, q); again != first {
			t.Errorf("%s: %s, want %s", name, again, first)
		}
	}
	second, _ := askRollouts(t, s, question(1, none.Instance))
	if l := opened(t, second); second.Number != 2 || l.Scored != 1 {
		t.Errorf("segment %d has %d episodes, want segment 2 with one", second.Number, l.Scored)
	}
	if rest, _ := askRollouts(t, s, question(2, none.Instance)); rest.Ledger != nil {
		t.Errorf("after all is acknowledged: %+v", rest)
	}
}

func TestRolloutRefusals(t *testing.T) {
	s, _ := serve(t, Config{})
	for query, want := range map[string]int{
		"": 400, "tag=a&run=u&pass_score=1&ack=0": 200, "tag=A&run=u&pass_score=1&ack=0": 400,
		"tag=a&run=&pass_score=1&ack=0": 400, "tag=a&run=u&pass_score=1000001&ack=0": 400,
		"tag=a&run=u&pass_score=1&ack=-1": 400, "tag=a&run=u&pass_score=1": 400,
		"tag=a&run=u&pass_score=1&ack=0&instance=" + strings.Repeat("i", 65): 400,
	} {
		answer := httptest.NewRecorder()
		s.OpsHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/rollouts?"+query, nil))
		if answer.Code != want || !json.Valid(answer.Body.Bytes()) {
			t.Errorf("?%s: %d %s, want %d", query, answer.Code, answer.Body, want)
		}
	}
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/rollouts?"+question(0, "").Query().Encode(),
		nil))
	if answer.Code != http.StatusNotFound {
		t.Errorf("clients are answered %d at /rollouts, want 404: what they collect would be lost to the run",
			answer.Code)
	}
}

// newTestRollouts are those of a server without sessions.
func newTestRollouts() *rollouts {
	return newRollouts(echoKind{}, "support-a", testKey(), slog.New(slog.DiscardHandler))
}

// end counts the end of an episode of a tag.
func (s *rollouts) end(tb testing.TB, tag string) {
	tb.Helper()
	if _, err := (rolloutBook{s, tag}).finish(score.PlannedEpisode{Task: "talk", Scenario: "E01"},
		score.Episode{Outcome: score.Scored, Score: score.One}); err != nil {
		tb.Fatal(err)
	}
}

// ask collects a tag for a run.
func (s *rollouts) ask(tb testing.TB, tag, run string, ack int64) score.Segment {
	tb.Helper()
	instance := ""
	if r := s.byTag[tag]; r != nil {
		instance = r.instance
	}
	segment, err := s.collect(score.Collection{Tag: tag, Run: run, PassScore: score.One, Instance: instance, Ack: ack})
	if err != nil {
		tb.Fatal(err)
	}
	return segment
}

// Tags that somebody makes up push out no tag that is collected.
func TestTagsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestRollouts()
		s.end(t, "first")
		pass(time.Second)
		for i := range maxTags - 1 {
			tag := fmt.Sprintf("collected-%d", i)
			if _, err := s.open(tag); err != nil {
				t.Fatal(err)
			}
			s.ask(t, tag, "uid", 0)
		}
		s.end(t, "second") // in place of the first
		if s.byTag["first"] != nil || s.dropped != 1 || s.remembered != 1 {
			t.Errorf("the tag that nobody collects is kept, or %d episodes are dropped and %d remembered", s.dropped,
				s.remembered)
		}
		s.ask(t, "second", "uid", 0)
		if _, err := s.open("third"); err == nil || !strings.Contains(err.Error(), "fewer runs") {
			t.Errorf("a tag too many is opened with %v", err)
		}
		if _, err := s.open("collected-0"); err != nil {
			t.Errorf("a tag that is there: %v", err)
		}
		pass(collectorSilence)
		if _, err := s.open("third"); err != nil {
			t.Errorf("a tag that is collected no longer makes no room: %v", err)
		}
		pass(ledgerTTL)
		s.expire(time.Now())
		if got := s.figures().tags; got != 0 || s.remembered != 0 {
			t.Errorf("%d tags and %d episodes are left after %v", got, s.remembered, ledgerTTL)
		}
	})
}

// A tag whose run is suspended outlives those that no run ever asked for, however recent. When it
// has to go nevertheless, the metrics tell what it had, sealed or not.
func TestTagsOfSilentRunsGoLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestRollouts()
		for i := range maxTags {
			tag := fmt.Sprintf("suspended-%d", i)
			s.end(t, tag)
			s.ask(t, tag, "uid", 0)
			s.end(t, tag)
			pass(time.Millisecond)
			if i == 0 {
				s.end(t, "made-up")
			}
		}
		if s.byTag["made-up"] != nil || s.byTag["suspended-0"] == nil || s.dropped != 1 {
			t.Errorf("a tag that no run asked for is kept, or %d episodes are dropped", s.dropped)
		}
		pass(collectorSilence)
		for i := range maxTags {
			s.end(t, fmt.Sprintf("made-up-%d", i))
		}
		if len(s.byTag) != maxTags || s.byTag["suspended-0"] != nil || s.byTag["suspended-1"] == nil ||
			s.dropped != 1+2+(maxTags-1) {
			t.Errorf("%d episodes are dropped of %d tags", s.dropped, len(s.byTag))
		}
	})
}

// Runs that nobody plays for make no tags: any number of them may ask.
func TestAskingMakesNoTag(t *testing.T) {
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

// What doesn't fit is told in the next segment, and takes nothing from tags that are collected.
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
		t.Errorf("%d episodes remembered, want %d and one dropped", s.remembered, maxUncollected)
	}
	s.end(t, "grpo-7")
	if next := s.ask(t, "grpo-7", "uid", 1); opened(t, next).Scored != 1 || next.Dropped != 0 {
		t.Errorf("made-up tags take the room of one that is collected: %+v", next)
	}
}

// A run that was made again under its name begins with what is open, and what the one before was
// handed is not its own. Whoever was handed the segment of another, the number tells.
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

// Numbers begin anew when a tag was forgotten, and so the instance is another: a run that was
// suspended for long doesn't take what is new for old.
func TestForgottenTagIsAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestRollouts()
		s.end(t, "grpo-7")
		before := s.ask(t, "grpo-7", "uid", 0)
		pass(ledgerTTL)
		s.expire(time.Now())
		s.end(t, "grpo-7")
		after, err := s.collect(score.Collection{Tag: "grpo-7", Run: "uid", PassScore: score.One,
			Instance: before.Instance, Ack: before.Number})
		if err != nil || after.Instance == before.Instance || after.Number != 1 || opened(t, after).Scored != 1 {
			t.Errorf("%+v, %v", after, err)
		}
	})
}

// More scenarios than a ledger holds are dropped and told, and the next segment is as good as any.
func TestSegmentTooLargeIsDropped(t *testing.T) {
	s := newTestRollouts()
	for i := range 4000 {
		if _, err := (rolloutBook{s, "grpo-7"}).finish(score.PlannedEpisode{Task: "talk", Scenario: fmt.Sprintf(
			"a-scenario-of-a-long-name-%04d", i)}, score.Episode{Outcome: score.Scored}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (rolloutBook{s, "grpo-7"}).finish(score.PlannedEpisode{},
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

// A drained server goes when the run has its last segment for good.
func TestDrainWaitsForCollectors(t *testing.T) {
	for name, tc := range map[string]struct {
		before, during func(t *testing.T, s *Server)
		want           time.Duration
	}{
		"nobody collects": {func(*testing.T, *Server) {}, func(*testing.T, *Server) {}, 0},
		"the run acknowledges": {
			func(t *testing.T, s *Server) { askRollouts(t, s, question(0, "")) },
			func(t *testing.T, s *Server) {
				pass(ledgerGrace + 4*time.Second) // an operator that has just started
				segment, _ := askRollouts(t, s, question(0, ""))
				pass(time.Second)
				askRollouts(t, s, question(segment.Number, segment.Instance))
			}, ledgerGrace + 5*time.Second,
		},
		"the run is done": {
			func(t *testing.T, s *Server) { askRollouts(t, s, question(0, "")) },
			func(t *testing.T, s *Server) {
				pass(time.Second)
				last := question(0, "")
				last.Run, last.Done = "another", true
				askRollouts(t, s, last)
				pass(time.Second)
				last.Run = "uid"
				askRollouts(t, s, last)
			}, 2 * time.Second,
		},
		"the run doesn't acknowledge": {
			func(t *testing.T, s *Server) { askRollouts(t, s, question(0, "")) },
			func(t *testing.T, s *Server) { askRollouts(t, s, question(0, "")) }, rolloutGrace,
		},
		"the run has gone": {
			func(t *testing.T, s *Server) { askRollouts(t, s, question(0, "")); pass(collectorSilence) },
			func(*testing.T, *Server) {}, 0,
		},
		"the run goes meanwhile": {
			func(t *testing.T, s *Server) {
				askRollouts(t, s, question(0, ""))
				pass(collectorSilence - 20*time.Second)
			},
			func(*testing.T, *Server) {}, 20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, network *pipeNet) {
				p := connectPipe(t, network)
				p.ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
				tc.before(t, s)
				p.ask(`{"type":"step","data":{"kind":"finish"}}`)
				p.send(`{"type":"close"}`)
				p.closed()
				began := time.Now()
				go tc.during(t, s)
				err := s.Drain(t.Context())
				if took := time.Since(began).Round(time.Second); err != nil || took != tc.want {
					t.Errorf("drained after %v with %v, want %v", took, err, tc.want)
				}
				synctest.Wait()
			})
		})
	}
}

// A server whose drain is cut short, as by trainers that keep their sockets, still hands over what
// has ended.
func TestHandOverAfterADrainThatIsCutShort(t *testing.T) {
	for name, tc := range map[string]struct {
		acknowledged bool
		want         time.Duration
	}{"the run acknowledges": {true, 5 * time.Second}, "the run doesn't": {false, handOverGrace}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, network *pipeNet) {
				p := connectPipe(t, network)
				p.ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
				askRollouts(t, s, question(0, ""))
				p.ask(`{"type":"step","data":{"kind":"finish"}}`)
				p.quiet()
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := s.Drain(short); err == nil {
					t.Error("the drain is not cut short")
				}
				s.Close()
				began := time.Now()
				go func() {
					pass(4 * time.Second)
					segment, _ := askRollouts(t, s, question(0, ""))
					pass(time.Second)
					if tc.acknowledged {
						askRollouts(t, s, question(segment.Number, segment.Instance))
					}
				}()
				s.HandOver(t.Context())
				if took := time.Since(began).Round(time.Second); took != tc.want {
					t.Errorf("handed over after %v, want %v", took, tc.want)
				}
			})
		})
	}
}

// Whatever is lost on the way, and however often the collector forgets what it had not written
// down, every episode is collected once.
func TestRolloutsAreCollectedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTestRollouts()
		// what the collector has for good, with the number of the last segment as its shard
		written, ended := score.Ledger{}, int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"an episode ends": func(t *rapid.T) {
				ended++
				outcome := rapid.SampledFrom([]score.Outcome{score.Scored, score.Failed, score.Errored}).Draw(t,
					"outcome")
				if _, err := (rolloutBook{s, "grpo-7"}).finish(score.PlannedEpisode{Task: "talk", Scenario: "E01"},
					score.Episode{Outcome: outcome}); err != nil {
					t.Fatal(err)
				}
			},
			"a pass": func(t *rapid.T) {
				instance := ""
				if r := s.byTag["grpo-7"]; r != nil {
					instance = r.instance
				}
				segment, err := s.collect(question(int64(written.Shard), instance))
				if err != nil {
					t.Fatal(err)
				}
				if rapid.Bool().Draw(t, "lost") || segment.Ledger == nil {
					return
				}
				l, err := segment.Verify("uid", segment.Pod, testKey().Public().(ed25519.PublicKey))
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
						l, err := r.sealed.Verify("uid", "support-a", testKey().Public().(ed25519.PublicKey))
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
