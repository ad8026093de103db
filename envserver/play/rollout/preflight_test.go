package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
)

// The agent's endpoint is tried before a session is opened. A refusal costs two requests and no
// episode.
func TestAgentIsTriedFirst(t *testing.T) {
	refused := &endpoint.Error{Class: endpoint.Unauthorised, Status: 401, URL: "http://m/v1", Words: "no such key"}
	down := &endpoint.Error{Class: endpoint.Broken, URL: "http://m/v1", Err: errors.New("connection refused")}
	busy := &endpoint.Error{Class: endpoint.Throttled, Status: 429}
	tests := map[string]struct {
		answers []error
		want    error
		words   string
		tries   int
	}{
		"answers":     {[]error{nil}, nil, "", 1},
		"is busy":     {[]error{busy}, nil, "", 1},
		"refuses":     {[]error{refused}, ErrAgentRefused, "http://m/v1 answered 401 Unauthorized: no such key", 2},
		"changes":     {[]error{refused, nil}, nil, "", 2},
		"starts":      {[]error{down, down, down, nil}, nil, "", 4},
		"stays away":  {[]error{down}, ErrAgentUnavailable, "connection refused", 0},
		"then denies": {[]error{down, refused}, ErrAgentRefused, "no such key", 3},
	}
	kind := ticketKind(t, offline.New())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, pod := serve(t, kind, 0)
			cfg := config(t, plan(t, kind, 1, 1, 1), policy.Oracle, pod)
			cfg.Clock = sleepingClock()
			began, tries, looked := cfg.Clock.Now(), 0, 0
			cfg.Try = func(context.Context) error {
				tries++
				return tc.answers[min(tries, len(tc.answers))-1]
			}
			cfg.Pods = func(context.Context) ([]string, error) { looked++; return []string{pod}, nil }
			_, err := Run(t.Context(), cfg)
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.words) {
				t.Errorf("error = %v, want %v", err, tc.want)
			}
			if tc.tries != 0 && tries != tc.tries || (looked > 0) != (tc.want == nil) {
				t.Errorf("%d tries, %d look-ups of the pool", tries, looked)
			}
			if took := cfg.Clock.Now().Sub(began); errors.Is(tc.want, ErrAgentUnavailable) != (took >= agentPatience) {
				t.Errorf("took %v", took)
			}
		})
	}
}

// refusing is an agent whose endpoint refuses every request.
type refusing struct{ acts *atomic.Int64 }

func (f refusing) Act(context.Context, policy.Turn) (json.RawMessage, error) {
	f.acts.Add(1)
	return nil, &policy.EndpointError{Class: score.ClassAgentError, Err: errors.New("401")}
}

// A key that is revoked during play ends the shard. An endpoint that refuses single requests
// because of their content doesn't.
func TestAgentIsTriedAgainAfterAFailure(t *testing.T) {
	kind := ticketKind(t, offline.New())
	for _, revoked := range []bool{true, false} {
		_, pod := serve(t, kind, 0)
		cfg := config(t, plan(t, kind, 20, 1, 1), policy.Oracle, pod)
		var acts, tries atomic.Int64
		cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) { return refusing{&acts}, nil }
		cfg.Concurrency, cfg.Clock = 1, sleepingClock()
		cfg.Try = func(context.Context) error {
			if tries.Add(1) == 1 || !revoked {
				return nil
			}
			return &endpoint.Error{Class: endpoint.Unauthorised, Status: 401}
		}
		summary, err := Run(t.Context(), cfg)
		switch {
		case revoked && (!errors.Is(err, ErrAgentRefused) || acts.Load() != 1):
			t.Errorf("revoked: %v after %d actions", err, acts.Load())
		case !revoked && (err != nil || summary.ErroredEpisodes() != cfg.Plan.Episodes()):
			t.Errorf("refused for its content: %d of %d errored, %v", summary.ErroredEpisodes(),
				cfg.Plan.Episodes(), err)
		}
	}
}

// The first shard rehearses once. What was seen is in its summary, and
// a refusal that is confirmed ends the shard.
func TestRehearsal(t *testing.T) {
	refused := &endpoint.Error{Class: endpoint.Rejected, Status: 400, URL: "http://m/v1"}
	down := &endpoint.Error{Class: endpoint.Broken, URL: "http://m/v1", Err: errors.New("connection reset")}
	kind := ticketKind(t, offline.New())
	for name, tc := range map[string]struct {
		shard  int
		errs   []error
		want   error
		called int
		seen   string
	}{
		"answers":     {0, []error{nil}, nil, 1, "The endpoint answers with actions as calls of tools."},
		"changes":     {0, []error{refused, nil}, nil, 2, "The endpoint answers with actions as calls of tools."},
		"refuses":     {0, []error{refused}, ErrAgentRefused, 2, ""},
		"fails":       {0, []error{down}, nil, 1, ""},
		"other shard": {1, nil, nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, pod := serve(t, kind, 0)
			cfg := config(t, plan(t, kind, 4, 1, 2), policy.Oracle, pod)
			cfg.Clock, cfg.Shard = sleepingClock(), tc.shard
			called := 0
			cfg.Rehearse = func(_ context.Context, turn policy.Turn) (policy.Rehearsal, bool, error) {
				called++
				if len(turn.Schema) == 0 || turn.Task != cfg.Plan.Tasks[0].Name {
					t.Errorf("task %s, %d bytes of schema", turn.Task, len(turn.Schema))
				}
				return policy.Rehearsal{Calls: true, Actions: 2, Tokens: score.Tokens{Prompt: 5}}, true,
					tc.errs[min(called, len(tc.errs))-1]
			}
			cfg.Concurrency = 1
			summary, err := Run(t.Context(), cfg)
			if !errors.Is(err, tc.want) || called != tc.called || summary.Endpoint != tc.seen {
				t.Errorf("%d calls, seen %q: %v", called, summary.Endpoint, err)
			}
			if summary.Tokens != (score.Tokens{}) {
				t.Errorf("the tokens of the rehearsal are counted: %+v", summary.Tokens)
			}
		})
	}
}
