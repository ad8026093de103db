package episodes

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tasks"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
)

// ended plays actions in B07, whose right outcome is a refund by the agent at seed 3.
func ended(t *testing.T, actions ...string) (episode.Environment, *episode.Final) {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := transcript.NewKind(catalog, "ticket", nil)
	if err != nil {
		t.Fatal(err)
	}
	env := kind.New()
	if _, err := env.Reset(episode.Options{Seed: 3, Task: tasks.TicketResolve, Scenario: "B07"}); err != nil {
		t.Fatal(err)
	}
	var last episode.Result
	for _, action := range actions {
		if last, err = env.Step(t.Context(), json.RawMessage(action)); err != nil {
			t.Fatal(err)
		}
	}
	return env, last.Final
}

// rows returns the lines of a text with single spaces.
func rows(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

func TestReview(t *testing.T) {
	const reply = `"message":"Hello, we are looking into your case."`
	verdict := func(criteria ...grader.Criterion) grader.Verdict {
		return grader.Verdict{Status: grader.StatusOK, PostGate: 120, Criteria: criteria}
	}
	tests := map[string]struct {
		action  string
		outcome score.Outcome
		verdict grader.Verdict
		want    []string
		never   string
	}{
		"nothing": {action: `{"action_type":"resolve"}`, outcome: score.Scored,
			want: []string{"category - billing 0.000 of 0.200 not set", "decision resolve resolve 0.200 of 0.200",
				"f1 refund_amount missing", "reply - 0.000 of 0.500 no reply was sent"}},
		"a wrong team": {action: `{"action_type":"submit","decision":"escalate","team":"trade",` + reply + `}`,
			outcome: score.Scored, want: []string{"decision escalate to trade resolve 0.000 of 0.200 an agent may"}},
		"a model's answers": {action: `{"action_type":"resolve",` + reply + `}`, outcome: score.Scored,
			verdict: verdict(grader.Criterion{ID: "Q1", Earned: 80, Offered: 160, Reason: "f5 contradicted",
				Evidence: []grader.Evidence{{Claim: "Q1.f1", Verdict: grader.Met, Quote: "too much"}}},
				grader.Criterion{ID: "Q2", Earned: 50, Offered: 100},
				grader.Criterion{ID: "Q3", Earned: 30, Offered: 60, Reason: "not answered in full: q2"},
				grader.Criterion{ID: "Q5", Earned: 40, Offered: 40,
					Evidence: []grader.Evidence{{Claim: "Q5", Verdict: grader.Met, Quote: "sorry"}}}),
			want: []string{`f1 overcharge stated $`, `the judge: met, by`, "f5 arrival contradicted", "Q2 next step in part",
				"q1 answered By how", "q2 open Can it", "Q5 the judge: met, by", "reply sent 0.120 of 0.500"}},
		"an unread reply": {action: `{"action_type":"resolve",` + reply + `}`, outcome: score.Scored,
			verdict: verdict(grader.Criterion{ID: "Q1", Offered: 160}), want: []string{"f1 overcharge missing"}},
		"without a grade": {action: `{"action_type":"resolve",` + reply + `}`, outcome: score.Errored,
			want: []string{"category - billing not set", "f1 refund_amount"}, never: " of 0.500"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			env, final := ended(t, tt.action)
			if len(tt.verdict.Criteria) > 0 {
				raw, err := json.Marshal(tt.verdict)
				if err != nil {
					t.Fatal(err)
				}
				var said struct {
					TicketID string `json:"ticket_id"`
				}
				if err := json.Unmarshal(final.Verdicts[0], &said); err != nil {
					t.Fatal(err)
				}
				final.Verdicts[0] = json.RawMessage(`{"ticket_id":"` + said.TicketID + `",` + string(raw[1:]))
			}
			var out bytes.Buffer
			grade := record.Grade{Outcome: tt.outcome, Verdicts: final.Verdicts}
			for _, r := range transcript.ReviewOf(grade, env) {
				printReview(&out, r)
			}
			got := rows(out.String())
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in:\n%s", want, got)
				}
			}
			if tt.never != "" && strings.Contains(got, tt.never) {
				t.Errorf("%q is in:\n%s", tt.never, got)
			}
		})
	}
}

// Without its scenario an episode is shown with the verdicts that are recorded.
func TestTranscriptWithoutTheScenario(t *testing.T) {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	e := record.Episode{Environment: "ticket", Task: tasks.TicketResolve, Scenario: "X99", Grade: record.Grade{
		Outcome:  score.Scored,
		Verdicts: []json.RawMessage{json.RawMessage(`{"criteria":[{"id":"Q1","reason":"f1 missing"}]}`)}}}
	var out bytes.Buffer
	if err := PrintTranscript(t.Context(), &out, catalog, e); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"f1 missing", "\ngold unknown: scenario X99 isn't in the catalogue\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}
