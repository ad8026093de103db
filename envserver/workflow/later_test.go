package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/internal/testkit"
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
			if w.Desk.Records.Customer.Hold == "" {
				asked++
				if w.Steps[0].Action != desk.AskCustomer {
					t.Errorf("%s seed %d: the first step is %s", s.ID, seed, w.Steps[0].Action)
				}
			}
			if p := Prove(w, reader); len(p.Faults) > 0 {
				t.Errorf("%s seed %d: %q", s.ID, seed, p.Faults)
			}
		}
	}
	if asked < 100 {
		t.Errorf("%d cases have a question, want 100", asked)
	}
}

// TestRequestsCanBeSettledOneAfterAnother makes each change as soon as what it depends on is known.
func TestRequestsCanBeSettledOneAfterAnother(t *testing.T) {
	reader := offline.New()
	between := 0
	for _, s := range listed(t, "return later-cancel-plan", "double-charge later-cancel-plan",
		"lost-parcel also-cancel-plan", "double-charge later-email") {
		for seed := range int64(40) {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			p := &prover{workflow: w, reader: reader}
			played := p.begin()
			for !played.replied {
				next := soonest(played)
				if changes(w.Steps[next].Action) && slices.ContainsFunc(played.open(), func(i int) bool {
					return !changes(w.Steps[i].Action) && !w.Steps[i].Terminal
				}) {
					between++
				}
				p.take(played, w.Steps[next])
			}
			if played.earnedResolution != resolutionPoints || len(played.fines) > 0 {
				t.Errorf("%s seed %d: %s, %v", s.ID, seed, played.unresolved(), played.fines)
			}
		}
	}
	if between < 20 {
		t.Errorf("%d changes come before a look-up of the other request, want 20", between)
	}
}

// soonest returns a change that is possible, or else the first step that isn't done.
func soonest(s *state) int {
	open := s.open()
	for _, i := range open {
		if changes(s.workflow.Steps[i].Action) && s.ready(s.workflow.Steps[i]) {
			return i
		}
	}
	return open[0]
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

// TestEarlyChangesBesideReadyOnes tries changes while one request's change is possible and the
// other one's isn't: the right one of the other request is refused, and wrong ones are made.
func TestEarlyChangesBesideReadyOnes(t *testing.T) {
	w := calm()
	second := append(theOrder(), scenarios.Arg{Name: "amount", In: []any{int64(700)}})
	w.Steps = slices.Insert(w.Steps, 3, scenarios.WorkflowStep{ID: "s5", Action: scenarios.InitiateRefund, Args: second,
		Requires: []string{"s2"}})
	w.Steps[2].Requires = []string{"s1"}
	for amount, want := range map[int64]int{1250: 1, 700: 0, 699: 1} {
		s := newState(&task{}, w, plainReader{}, "")
		s.carryOut(scenarios.CheckOrderStatus, map[string]any{"order_id": "LD-1"})
		s.carryOut(scenarios.InitiateRefund, map[string]any{"order_id": "LD-1", "payment_id": "PAY-1", "amount": amount})
		if got := len(s.backend.Refunds); got != want {
			t.Errorf("%d cents: %d refunds, want %d", amount, got, want)
		}
	}
}
