package policy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// A trace is kept as far as the endpoint gives it. One of another form, or one that contradicts
// itself, is left out, and the action is played.
func TestTraces(t *testing.T) {
	probabilities := `"logprobs": {"content": [{"token": "a", "logprob": -0.5}, {"token": "b\n", "logprob": 0}]}`
	for name, tc := range map[string]struct {
		choice, top string
		want        *record.Trace
	}{
		"none":          {},
		"null":          {choice: `"logprobs": null, "token_ids": null`, top: `"prompt_token_ids": null`},
		"probabilities": {choice: probabilities, want: &record.Trace{Tokens: []string{"a", "b\n"}, LogProbs: []float64{-0.5, 0}}},
		"ids": {choice: `"token_ids": [7, 151645]`, top: `"prompt_token_ids": [1, 2, 3]`,
			want: &record.Trace{PromptIDs: []int32{1, 2, 3}, IDs: []int32{7, 151645}}},
		"both": {choice: `"token_ids": [7, 8], ` + probabilities,
			want: &record.Trace{IDs: []int32{7, 8}, Tokens: []string{"a", "b\n"}, LogProbs: []float64{-0.5, 0}}},
		"contradiction": {choice: `"token_ids": [7, 8, 9], ` + probabilities},
		"other forms":   {choice: `"logprobs": [1], "token_ids": "7 8"`, top: `"prompt_token_ids": {"a": 1}`},
		"no integers":   {choice: `"token_ids": [0.5, 1e300]`},
		"endless":       {choice: `"token_ids": [7` + strings.Repeat(",7", 1<<20) + `]`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"choices": [{"message": %s, "finish_reason": "stop"%s}], "usage": {"prompt_tokens": 5}%s}`, answer,
				member(tc.choice), member(tc.top))
		}))
		agent := newAgent(t, policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{BaseURL: server.URL,
			Model: "m"}})
		action, err := agent.Act(t.Context(), see(t, "ticket", "ticket-resolve", `{}`))
		server.Close()
		if err != nil || string(action) != `{"action_type":"respond","message":"Hello"}` {
			t.Errorf("%s: Act() = %s, %v", name, action, err)
		}
		want := record.Answer{Said: "Let me see.", Tokens: &score.Tokens{Prompt: 5}, Trace: tc.want}
		if diff := cmp.Diff(want, agent.(policy.Speaker).Answer()); diff != "" {
			t.Errorf("%s: the answer (-want +got)\n%s", name, diff)
		}
	}
}

// The traces of an episode are bounded together.
func TestTracesAreBounded(t *testing.T) {
	ids := `[7` + strings.Repeat(",7", 400_000) + `]`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"choices": [{"message": %s, "token_ids": %s}]}`, answer, ids)
	}))
	defer server.Close()
	agent := newAgent(t, policy.Config{Type: policy.TypeOpenAI, OpenAI: &policy.OpenAIConfig{BaseURL: server.URL,
		Model: "m"}})
	for i := range 3 {
		turn := see(t, "ticket", "ticket-resolve", `{}`)
		turn.Step = i
		if _, err := agent.Act(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		if kept := agent.(policy.Speaker).Answer().Trace != nil; kept != (i == 0) {
			t.Errorf("answer %d: the trace is kept: %t", i, kept)
		}
	}
}

// member adds a member to an object.
func member(text string) string {
	if text == "" {
		return ""
	}
	return ", " + text
}
