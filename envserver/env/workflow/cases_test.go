package workflow

import (
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// TestEveryCaseIsProved proves one instance of each case of the catalogue.
func TestEveryCaseIsProved(t *testing.T) {
	catalog := testkit.Catalog(t)
	reader := offline.New()
	cases := catalog.Cases()
	if len(cases) < 500 {
		t.Errorf("%d cases, want at least 500", len(cases))
	}
	seeds := int64(4) // of conversations, in which a customer's behaviour is drawn too
	if testing.Short() {
		seeds = 1
	}
	proved := 0
	for i, s := range cases {
		for k := range seeds {
			if k > 0 && !s.Talks {
				break
			}
			seed := int64(i) + k*int64(len(cases))
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			if p := ProveCase(w, reader); len(p.Faults) > 0 || p.Tried < 20 {
				t.Errorf("%s seed %d: %d paths, %q", s.ID, seed, p.Tried, p.Faults)
			}
			proved++
		}
	}
	t.Logf("%d instances of %d cases are proved", proved, len(cases))
}

// TestProveFindsFaults spoils a case in ways that the proof must notice.
func TestProveFindsFaults(t *testing.T) {
	catalog := testkit.Catalog(t)
	s, ok := catalog.Workflow("double-charge-01")
	if !ok {
		t.Fatal("no case double-charge-01")
	}
	seed := int64(0)
	for ; ; seed++ { // the first instance with a refund
		w, err := s.Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(w.Steps, func(step scenarios.WorkflowStep) bool { return step.Action == desk.Refunding }) {
			break
		}
	}
	for name, spoil := range map[string]func(w *scenarios.Workflow){
		"a reply without the facts": func(w *scenarios.Workflow) { w.References.Good[0] = "Thank you, all is well." },
		"no facts at all": func(w *scenarios.Workflow) {
			w.Facts = nil
			w.Steps = w.Steps[len(w.Steps)-1:]
			w.Steps[0].Requires = nil
		},
		"an amount that isn't paid": func(w *scenarios.Workflow) {
			for i := range w.Steps {
				if w.Steps[i].Action == desk.Refunding {
					w.Steps[i].Args = []scenarios.Arg{{Name: "amount", In: []any{int64(-1)}}}
				}
			}
			w.Steps = w.Steps[1:]
		},
	} {
		w, err := s.Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		spoil(w)
		if p := ProveCase(w, offline.New()); len(p.Faults) == 0 {
			t.Errorf("%s: no fault was found", name)
		}
	}
	w, err := s.Instantiate(seed)
	if err != nil {
		t.Fatal(err)
	}
	p := &prover{workflow: w}
	if p.listChanges(desk.Tools); len(p.Faults) > 0 {
		t.Error(p.Faults)
	}
	for _, arg := range []string{"gift", "gift?"} { // which listVisible doesn't know
		p := &prover{workflow: w}
		apply := desk.FindTool(desk.Crediting).Apply
		if p.listChanges([]desk.Tool{{Name: "wrap", Args: []string{"amount", arg}, Apply: apply}}); len(p.Faults) != 1 {
			t.Errorf("nothing to try for %s: %q", arg, p.Faults)
		}
	}
}

// TestEarlyChangesRevealNothing makes the required changes of cases while something is missing:
// each answer is the same.
func TestEarlyChangesRevealNothing(t *testing.T) {
	catalog := testkit.Catalog(t)
	answers := map[string]int{}
	for i, s := range catalog.Cases() {
		if i%20 != 0 {
			continue
		}
		w, err := s.Instantiate(int64(i))
		if err != nil {
			t.Fatal(err)
		}
		p := &prover{workflow: w, reader: offline.New()}
		for _, change := range w.Steps {
			if !desk.IsChange(change.Action) {
				continue
			}
			now := p.beginEpisode()
			for _, id := range change.Requires {
				answers[now.clone().carryOut(change.Action, p.stepArguments(change)).Error]++
				at := slices.IndexFunc(w.Steps, func(step scenarios.WorkflowStep) bool { return step.ID == id })
				p.takeStep(now, w.Steps[at])
			}
		}
	}
	if len(answers) != 1 || answers[""] > 0 {
		t.Errorf("the answers are %v, want one alone", answers)
	}
}
