package workflow

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

const (
	thanks    = `{"action_type":"respond_user","payload":{"message":"Thank you for your message."}}`
	wrongTeam = `{"action_type":"escalate_issue","payload":{"team":"nobody"}}`
)

// caseWith draws a case with a number of required changes, and without a failing tool.
func caseWith(t *testing.T, kind *Kind, changed int) *scenarios.Workflow {
	t.Helper()
	for i, s := range kind.catalog.Cases() {
		w, err := s.Instantiate(int64(i))
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Faults) == 0 && countChanges(w) == changed {
			return w
		}
	}
	t.Fatalf("no case requires %d changes", changed)
	return nil
}

func countChanges(w *scenarios.Workflow) int {
	n := 0
	for _, step := range w.Steps {
		if desk.IsChange(step.Action) {
			n++
		}
	}
	return n
}

// parts returns the required look-ups and questions, the required changes and the reply.
func parts(w *scenarios.Workflow) (look, change []string, last string) {
	for _, step := range w.Steps {
		switch action := goldAction(w, step); {
		case step.Terminal:
			last = action
		case desk.IsChange(step.Action):
			change = append(change, action)
		default:
			look = append(look, action)
		}
	}
	return look, change, last
}

// TestCasesArePaidByWhatIsRight plays a case with two required changes.
func TestCasesArePaidByWhatIsRight(t *testing.T) {
	_, kind := publicKind(t)
	w := caseWith(t, kind, 2)
	look, change, last := parts(w)
	const paid = lookUpPoints * paidLookUps
	tests := map[string]struct {
		actions []string
		want    int64
	}{
		"look-ups alone":                 {nil, paid},
		"a refusal":                      {[]string{thanks}, paid},
		"a change without a reply":       {change[:1], paid},
		"one of two changes":             {[]string{change[0], last}, paid},
		"both changes without an answer": {[]string{change[0], change[1], thanks}, paid},
		"a wrong change too":             {[]string{change[0], wrongTeam, change[1], last}, paid - wrongPenalty},
		"everything":                     {[]string{change[0], change[1], last}, goldReturn(w)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, final := run(t, begin(kind, w, episode.Dense), slices.Concat(look, tt.actions))
			if got != tt.want || final != nil && final.Wrong == (got == goldReturn(w)) {
				t.Errorf("the rewards add up to %d, want %d: %+v", got, tt.want, final)
			}
		})
	}
}

// TestRewardsOfCasesAddUpToTheScore plays random actions on generated cases: with both kinds of
// rewards the sum is the score, and terminal ones are 0 before the end.
func TestRewardsOfCasesAddUpToTheScore(t *testing.T) {
	_, kind := publicKind(t)
	cases := kind.catalog.Cases()
	rapid.Check(t, func(rt *rapid.T) {
		w, err := rapid.SampledFrom(cases).Draw(rt, "case").Instantiate(rapid.Int64Range(0, 1000).Draw(rt, "seed"))
		if err != nil {
			rt.Fatal(err)
		}
		look, change, last := parts(w)
		others := slices.Sorted(maps.Values(probes(w)))
		actions := slices.Concat(rapid.Permutation(look).Draw(rt, "look-ups"),
			rapid.SliceOfN(rapid.SampledFrom(slices.Concat(look, change, change, others)), 0, 6).Draw(rt, "others"),
			[]string{rapid.SampledFrom([]string{last, thanks}).Draw(rt, "reply")})
		total, final := run(rt, begin(kind, w, episode.Dense), actions)
		held := begin(kind, w, episode.Terminal)
		before, none := run(rt, held, actions[:len(actions)-1])
		after, again := run(rt, held, actions[len(actions)-1:])
		if none == nil {
			none = again
		}
		if diff := cmp.Diff(final, none); final == nil || diff != "" || before+after != total ||
			again != nil && before != 0 {
			rt.Fatalf("dense rewards add up to %d, terminal ones to %d and %d:\n%s", total, before, after, diff)
		}
		if want := max(0, total) * score.One / goldReturn(w); final.Score-want > 1 || want-final.Score > 1 {
			rt.Fatalf("the score is %d, want %d of %d", final.Score, total, goldReturn(w))
		}
	})
}

// TestProveFindsPaidRefusals proves a case whose reply need not state anything.
func TestProveFindsPaidRefusals(t *testing.T) {
	_, kind := publicKind(t)
	w := caseWith(t, kind, 0)
	w.Facts = nil
	if p := ProveCase(w, kind.reader); len(p.Faults) != 2 || !strings.Contains(p.Faults[1], "refusal") {
		t.Errorf("faults %q, want one about no step and one about a refusal", p.Faults)
	}
}
