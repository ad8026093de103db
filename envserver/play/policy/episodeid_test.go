package policy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
)

// What identifies an episode to an agent follows from the run's key: it is the same when the run's
// episode is played again, and an agent that played it in another run doesn't recognise it.
func TestAgentsKnowEpisodesByTheRunsKey(t *testing.T) {
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"action": {}, "choices": [{"message": {"content": "{}"}}]}`)
	}))
	t.Cleanup(server.Close)
	for _, tc := range []struct {
		agent  policy.Config
		member string
	}{
		{policy.Config{Type: policy.TypeHTTP, HTTP: &policy.HTTPConfig{URL: server.URL}}, "episode"},
		{policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{BaseURL: server.URL, Model: "m"}}, "seed"},
	} {
		t.Run(string(tc.agent.Type), func(t *testing.T) {
			// asked returns the member and all others of the request for an episode.
			asked := func(key string, planned score.PlannedEpisode) (string, map[string]json.RawMessage) {
				made, err := policy.New(tc.agent, policy.Options{Environment: "ticket", IDKey: key})
				if err != nil {
					t.Fatal(err)
				}
				agent, err := made.Play(planned)
				if err != nil {
					t.Fatal(err)
				}
				turn := see(t, "ticket", "ticket-resolve", `{"a":1}`)
				turn.Planned = planned
				if _, err := agent.Act(t.Context(), turn); err != nil {
					t.Fatal(err)
				}
				var members map[string]json.RawMessage
				if err := json.Unmarshal(body, &members); err != nil || members[tc.member] == nil {
					t.Fatalf("asked %s (%v)", body, err)
				}
				id := string(members[tc.member])
				delete(members, tc.member)
				return id, members
			}
			planned := score.PlannedEpisode{Index: 7, Task: "ticket-resolve", Scenario: "T001", Trial: 2, Seed: 4242}
			other := score.PlannedEpisode{Index: 8, Task: "ticket-resolve", Scenario: "B001", Trial: 3, Seed: 4243}
			id, members := asked("run", planned)
			if again, _ := asked("run", planned); again != id {
				t.Errorf("the episode is %s, and %s when it is played again", id, again)
			}
			if elsewhere, _ := asked("run2", planned); elsewhere == id {
				t.Errorf("the episode is %s in every run", id)
			}
			another, rest := asked("run", other)
			if another == id {
				t.Errorf("two episodes are %s", id)
			}
			if diff := cmp.Diff(members, rest); diff != "" {
				t.Errorf("requests with the same observation tell two episodes apart by more than %s:\n%s", tc.member, diff)
			}
		})
	}
}
