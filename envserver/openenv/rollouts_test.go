package openenv

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// question returns the request of a run for the tag grpo-7.
func question(ack int64, instance string) score.CollectRequest {
	return score.CollectRequest{Tag: "grpo-7", Run: "uid", PassScore: 700_000, Instance: instance, Ack: ack}
}

// askRollouts sends a request to the operations port, like the operator.
func askRollouts(tb testing.TB, s *Server, q score.CollectRequest) (score.Segment, string) {
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
	l, err := segment.Verify("uid", segment.Pod, echo.LedgerKey().Public().(ed25519.PublicKey))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// A trainer's ended episodes are collected by the run that it names, graded by the pool, with the
// run's pass score. Abandoned ones are not.
func TestRollouts(t *testing.T) {
	s, url := serve(t, Config{RewardMode: episode.Dense, Pod: "support-a"})
	p := wire.Connect(t, url)
	play := func(seed int, end string) {
		t.Helper()
		p.Ask(fmt.Sprintf(`{"type":"reset","data":{"run":"grpo-7","seed":%d}}`, seed))
		if end != "" {
			p.Ask(fmt.Sprintf(`{"type":"step","data":{"kind":%s}}`, end))
		}
	}
	play(10, `"finish","score":900000`)
	play(10, `"finish","score":700000`)
	play(11, `"failed","score":100000`)
	play(12, `"errored","score":500000`)
	play(12, `"panic"`)
	play(12, "")
	p.Ask(`{"type":"reset","data":{"run":"other","seed":1}}`)
	p.Ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`)
	play(13, "")
	if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "reward_mode"); got != "dense" {
		t.Errorf("a trainer gets %v rewards, want the mode of its choice", got)
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
	if got := s.makeReport(nil).Runs; len(got) != 0 {
		t.Errorf("rollouts are reported as runs with ledgers: %+v", got)
	}
	if got := testMetric(t, s, `csenv_rollout_episodes_total{result="counted"}`); got != "4" {
		t.Errorf("%s episodes counted by the metrics, want 4", got)
	}
}

// testMetric returns the value of a series.
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

// Every transport that can begin an episode on a session accepts the tag.
func TestRolloutsByEveryTransport(t *testing.T) {
	s, url := serve(t, Config{})
	const finish = `{"kind":"finish","score":1000000}`

	id := wire.CreateSession(t, url)
	if status, body := wire.PostBody(t, url+"/reset", fmt.Sprintf(`{"session_id":%q,"seed":1,"run":"grpo-7"}`,
		id)); status != 200 {
		t.Fatal(body)
	}
	wire.PostBody(t, url+"/step", fmt.Sprintf(`{"session_id":%q,"action":%s}`, id, finish))

	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{"split":"train","index":0,"run":"grpo-7"}}`)
	p.Ask(`{"type":"step","data":` + finish + `}`)

	p.Ask(`{"type":"reset","data":{"seed":1,"run":"grpo-7"}}`)
	p.Ask(`{"type":"step","data":{"type":"call_tool","tool_name":"finish","arguments":{"score":1000000}}}`)

	c, err := dialMCP(t.Context(), url+"/mcp?seed=1&run=grpo-7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "finish",
		Arguments: map[string]any{"score": 1_000_000}}); err != nil {
		t.Fatal(err)
	}

	// A stateless request counts for no run.
	wire.PostBody(t, url+"/step", fmt.Sprintf(`{"seed":1,"run":"grpo-7","action":%s}`, finish))
	if status, _ := wire.PostBody(t, url+"/reset", `{"seed":1,"run":"No Name"}`); status != 422 {
		t.Errorf("an invalid tag was answered with %d", status)
	}
	segment, _ := askRollouts(t, s, question(0, ""))
	if got := opened(t, segment).Scored; got != 4 {
		t.Errorf("%d episodes are counted, want 4", got)
	}
}

// A segment keeps its bytes until the run acknowledges it.
func TestSegmentsStayUntilAcknowledged(t *testing.T) {
	s, url := serve(t, Config{})
	p := wire.Connect(t, url)
	end := func() {
		t.Helper()
		p.Ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
		p.Ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`)
	}
	p.Ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
	none, _ := askRollouts(t, s, question(0, ""))
	if none.Ledger != nil || none.Number != 0 || none.Instance == "" {
		t.Fatalf("before the first end: %+v", none)
	}
	end()
	_, first := askRollouts(t, s, question(0, none.Instance))
	end()
	for name, q := range map[string]score.CollectRequest{
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
		t.Errorf("after the last acknowledgement: %+v", rest)
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
		t.Errorf("clients are answered %d at /rollouts, want 404: episodes that they collect would be lost to the run",
			answer.Code)
	}
}

// A drained server exits after the run has stored its last segment.
func TestDrainWaitsForCollectors(t *testing.T) {
	for name, tc := range map[string]struct {
		before, during func(t *testing.T, s *Server)
		want           time.Duration
	}{
		"no run collects": {func(*testing.T, *Server) {}, func(*testing.T, *Server) {}, 0},
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
		"the run was deleted": {
			func(t *testing.T, s *Server) { askRollouts(t, s, question(0, "")); pass(time.Minute) },
			func(*testing.T, *Server) {}, 0,
		},
		"the run is deleted during the drain": {
			func(t *testing.T, s *Server) {
				askRollouts(t, s, question(0, ""))
				pass(40 * time.Second)
			},
			func(*testing.T, *Server) {}, 20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
				p := wire.ConnectPipe(t, network)
				p.Ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
				tc.before(t, s)
				p.Ask(`{"type":"step","data":{"kind":"finish"}}`)
				p.Send(`{"type":"close"}`)
				p.Closed()
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

// A server whose drain times out, for example because trainers keep their sockets, still returns
// the ended episodes.
func TestCollectionAfterADrainTimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		acknowledged bool
		want         time.Duration
	}{"the run acknowledges": {true, 5 * time.Second}, "the run doesn't": {false, collectGrace}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, s *Server, network *wire.PipeNet) {
				p := wire.ConnectPipe(t, network)
				p.Ask(`{"type":"reset","data":{"run":"grpo-7","seed":1}}`)
				askRollouts(t, s, question(0, ""))
				p.Ask(`{"type":"step","data":{"kind":"finish"}}`)
				p.Quiet()
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := s.Drain(short); err == nil {
					t.Error("the drain does not time out")
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
				s.WaitCollected(t.Context())
				if took := time.Since(began).Round(time.Second); took != tc.want {
					t.Errorf("collected after %v, want %v", took, tc.want)
				}
			})
		})
	}
}
