package episodes

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
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
	answer := func(kind, about, verdict, quote string) grader.Evidence {
		return grader.Evidence{Claim: grader.Claim{Kind: kind, About: about}, Verdict: verdict, Quote: quote}
	}
	points := .5
	tests := map[string]struct {
		action  string
		outcome score.Outcome
		verdict grader.Verdict
		want    []string
		never   string
	}{
		"nothing": {action: `{"action_type":"resolve"}`, outcome: score.Scored,
			want: []string{"category not set billing 0.000 of 0.200", "escalation resolve resolve 0.200 of 0.200",
				"refund amount not stated $", "response none 0.000 of 0.500", "sum 0.200 of 1.000"}},
		"a wrong team": {action: `{"action_type":"submit","decision":"escalate","team":"trade",` + reply + `}`,
			outcome: score.Scored, want: []string{"escalation escalate to trade resolve 0.000 of 0.200 an agent may"}},
		"a model's answers": {action: `{"action_type":"resolve",` + reply + `}`, outcome: score.Scored,
			verdict: verdict(grader.Criterion{ID: "facts", Earned: 80, Offered: 160, Reason: "1 of 2 are missing",
				Evidence: []grader.Evidence{answer("facts", "f1", grader.Met, "too much"), answer("facts", "f5", grader.Unmet, "")}},
				grader.Criterion{ID: "next step", Earned: 50, Offered: 100},
				grader.Criterion{ID: "questions answered", Earned: 30, Offered: 60, Evidence: []grader.Evidence{
					answer("questions answered", "q1", grader.Met, "too much"), answer("questions answered", "q2", grader.Unmet, "")}},
				grader.Criterion{ID: "empathy", Earned: 40, Offered: 40,
					Evidence: []grader.Evidence{answer("empathy", "", grader.Met, "sorry")}}),
			want: []string{`refund amount told $`, `the judge: met, by`, "arrives by not told", "next step 0.050 of 0.100",
				"By how much were we answered", "open the judge: unmet", "empathy 0.040 of 0.040 the judge: met",
				"response 0.120 of 0.500"}},
		"an unread reply": {action: `{"action_type":"resolve",` + reply + `}`, outcome: score.Scored,
			verdict: verdict(grader.Criterion{ID: "facts", Offered: 160}), want: []string{"refund amount not stated"}},
		"without a grade": {action: `{"action_type":"resolve",` + reply + `}`, outcome: score.Errored,
			want: []string{"category not set billing\n", "refund amount"}, never: " of 0.500"},
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
			reviews, _ := transcript.ReviewOf(record.Grade{Outcome: tt.outcome, Score: &points, Verdicts: final.Verdicts}, env)
			for _, r := range reviews {
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
		Verdicts: []json.RawMessage{json.RawMessage(`{"criteria":[{"id":"facts","reason":"1 of 2 are missing"}]}`)}}}
	var out bytes.Buffer
	if err := PrintTranscript(t.Context(), &out, catalog, nil, e); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 of 2 are missing", "\ngold unknown: scenario X99 isn't in the catalogue\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}
