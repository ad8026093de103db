package workflow

import (
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// withheldCases yields cases about other customers' orders or accounts under fraud review, with
// what their customers must not be told: every eighth seed of each case.
func withheldCases(t *testing.T, seeds int64, yield func(w *scenarios.Workflow, gate int)) {
	t.Helper()
	found := 0
	for i, s := range testkit.Catalog(t).Cases() {
		for seed := int64(i % 8); seed < seeds; seed += 8 {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			gate := slices.IndexFunc(w.Forbidden, func(f scenarios.ForbiddenAction) bool { return f.ID == "disclosure" })
			if gate >= 0 {
				found++
				yield(w, gate)
			}
		}
	}
	if found < 40 {
		t.Errorf("%d cases have a customer who must not be told everything, want 40", found)
	}
}

// TestRightRepliesDiscloseNothing reads right replies to customers who must not be told everything.
func TestRightRepliesDiscloseNothing(t *testing.T) {
	reader := offline.New()
	withheldCases(t, 200, func(w *scenarios.Workflow, gate int) {
		reply := w.References.Good[0]
		for _, message := range []string{
			reply,
			"I'm afraid that I can't tell you anything about this delivery or its shipping. " + reply,
			reply + " I know that waiting for an answer isn't pleasant, and I have placed your request at the top.",
			"Could you give me the number of the order, please?",
		} {
			if got := reader.ReadMessage(w, message).Commits[gate]; got != "" {
				t.Errorf("%s seed %d: %s: %s", w.ScenarioID, w.Seed, got, message)
			}
		}
	})
}

// TestDisclosuresAreNoticed adds each value that must not be told to the right reply.
func TestDisclosuresAreNoticed(t *testing.T) {
	reader := offline.New()
	withheldCases(t, 16, func(w *scenarios.Workflow, gate int) {
		for _, value := range w.Forbidden[gate].Values {
			message := w.References.Good[0] + " What I see here is " + value + "."
			if got := reader.ReadMessage(w, message).Commits[gate]; !strings.Contains(got, "discloses") {
				t.Errorf("%s seed %d: %q isn't noticed: %q", w.ScenarioID, w.Seed, value, got)
			}
		}
	})
}

// TestADisclosureSpoilsTheResolution states values of another customer's order and of an account
// under fraud review.
func TestADisclosureSpoilsTheResolution(t *testing.T) {
	catalog := testkit.Catalog(t)
	for _, tc := range []struct {
		id    string
		seed  int64
		tells func(r *desk.Records) string
	}{
		{"address-change-05", 0, func(r *desk.Records) string { return "It goes to " + r.Orders[0].Address }},
		{"address-change-05", 0, func(r *desk.Records) string { return "It cost $" + r.Orders[0].Total.String() }},
		{"address-change-02", 0, func(*desk.Records) string { return "Your account is under fraud review" }},
		{"address-change-02", 0, func(r *desk.Records) string { return "The payment is " + r.Payments[0].ID }},
	} {
		s, ok := catalog.Workflow(tc.id)
		if !ok {
			t.Fatalf("there is no case %s", tc.id)
		}
		w, err := s.Instantiate(tc.seed)
		if err != nil {
			t.Fatal(err)
		}
		w.References.Good[0] += " " + tc.tells(w.Desk.Records) + "."
		p := &prover{workflow: w, reader: offline.New()}
		played := p.begin()
		for _, step := range w.Steps {
			p.take(played, step)
		}
		if played.earnedResolution > 0 || len(played.breaches) == 0 {
			t.Errorf("%s: %q resolves the case", tc.id, w.References.Good[0])
		}
	}
}
