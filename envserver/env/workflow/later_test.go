package workflow

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/pack"
)

// listed returns the cases of a pack with the given compositions: a family and its modifiers.
func listed(t *testing.T, compositions ...string) []*scenarios.WorkflowScenario {
	t.Helper()
	list := "apiVersion: csenv/v1\nkind: CaseList\nmetadata: {id: own, version: 1, canary: \"csenv-canary own\"}\n" +
		"cases:\n"
	for i, c := range compositions {
		family, modifiers, _ := strings.Cut(c, " ")
		list += fmt.Sprintf("  own-%s-%02d: easy private %s\n", family, i+1, modifiers)
	}
	catalog, err := scenarios.LoadPacks(scenarios.PublicPack(), pack.Pack{Name: "own", FS: fstest.MapFS{
		"families/own.yaml": {Data: []byte(list)}}})
	if err != nil {
		t.Fatal(err)
	}
	var own []*scenarios.WorkflowScenario
	for _, s := range catalog.Cases() {
		if strings.HasPrefix(s.ID, "own-") {
			own = append(own, s)
		}
	}
	return own
}

// laterCompositions are all compositions of a family with a modifier whose request comes later, and
// some of them with further modifiers.
func laterCompositions(t *testing.T) []string {
	t.Helper()
	out := []string{"return eu gift-card later-cancel-plan", "double-charge fraud-review later-email",
		"price-drop later-warranty stranger", "damaged-refund later-warranty mixed-payment",
		"wrong-item flaky-payments later-cancel-plan out-of-stock"}
	for c := range testkit.Catalog(t).CaseSet().All(1, "en") {
		if len(c.Modifiers) == 1 && strings.HasPrefix(c.Modifiers[0], "later-") {
			out = append(out, c.Family+" "+c.Modifiers[0])
		}
	}
	if len(out) < 20 {
		t.Errorf("%d compositions, want 20", len(out))
	}
	return out
}

func TestLaterRequestsAreProved(t *testing.T) {
	reader := offline.New()
	asked := 0
	for _, s := range listed(t, laterCompositions(t)...) {
		for seed := range int64(6) {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			if w.Records.Customer.Hold == "" {
				asked++
				if w.Steps[0].Action != desk.AskCustomer {
					t.Errorf("%s seed %d: the first step is %s", s.ID, seed, w.Steps[0].Action)
				}
			}
			if p := ProveCase(w, reader); len(p.Faults) > 0 {
				t.Errorf("%s seed %d: %q", s.ID, seed, p.Faults)
			}
		}
	}
	if asked < 100 {
		t.Errorf("%d cases have a question, want 100", asked)
	}
}

// TestChangesWaitForEveryRequest makes each change as soon as the look-ups of one request are done,
// while those of the other one aren't: right or wrong, each is refused in the same way.
func TestChangesWaitForEveryRequest(t *testing.T) {
	answers := map[string]int{}
	for _, s := range listed(t, "return later-cancel-plan", "double-charge later-cancel-plan",
		"lost-parcel also-cancel-plan", "double-charge later-email") {
		for seed := range int64(10) {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			p := &prover{workflow: w, reader: offline.New()}
			for played := p.beginEpisode(); !desk.IsChange(w.Steps[played.open()[0]].Action) &&
				!w.Steps[played.open()[0]].Terminal; {
				for _, step := range w.Steps {
					if desk.IsChange(step.Action) {
						answers[played.clone().carryOut(step.Action, p.stepArguments(step)).Error]++
					}
				}
				answers[played.clone().carryOut(desk.Escalating, map[string]any{"team": "finance"}).Error]++
				p.takeStep(played, w.Steps[played.open()[0]])
			}
		}
	}
	if len(answers) != 1 || answers[""] > 0 {
		t.Errorf("the answers are %v, want one alone", answers)
	}
}

// open lists the required steps that aren't done.
func (s *state) open() []int {
	var out []int
	for i, done := range s.satisfied {
		if !done {
			out = append(out, i)
		}
	}
	return out
}

// TestEarlyChangesOfWrittenWorkflows tries a right change, a wrong one, and one that isn't needed,
// before any look-up: each is refused.
func TestEarlyChangesOfWrittenWorkflows(t *testing.T) {
	for _, amount := range []int64{1250, 699, 0} {
		s := newState(&task{}, calm(), comparing(), "")
		action, args := desk.Refunding, map[string]any{"order_id": "LD-1", "payment_id": "PAY-1", "amount": amount}
		if amount == 0 {
			action, args = desk.Readdressing, map[string]any{"order_id": "LD-1"}
		}
		if got := s.carryOut(action, args); len(s.records.Refunds) > 0 ||
			got.Error != "not done: "+s.describeMissing() ||
			s.sumFines() != wrongPenalty {
			t.Errorf("%s, %d cents: %d refunds, %q, %d", action, amount, len(s.records.Refunds), got.Error,
				s.sumFines())
		}
	}
}
