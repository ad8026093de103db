package prose

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

func TestReadFacts(t *testing.T) {
	facts := []scenarios.Fact{
		{ID: "amount", Value: "$12.50", Context: []string{"refund", "sent back"}},
		{ID: "arrival", Value: "5 business days", Context: []string{"card", "arrive"}},
	}
	tests := map[string]struct {
		reply string
		want  []grader.Finding
	}{
		"both": {"I have refunded $12.50. It will arrive on your card within five business days.",
			[]grader.Finding{stated, stated}},
		"one": {"I have refunded $12.50 to you.", []grader.Finding{stated, missing}},
		"another value": {"I have refunded $21.50. It will arrive within 9 business days.",
			[]grader.Finding{contradicted, contradicted}},
		"no context":       {"$12.50. 5 business days.", []grader.Finding{missing, missing}},
		"nothing":          {"", []grader.Finding{missing, missing}},
		"denied":           {"I have not refunded $12.50.", []grader.Finding{contradicted, missing}},
		"another language": {"你好", []grader.Finding{missing, missing}},
	}
	judge := New()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, readFacts(judge, tc.reply, facts)); diff != "" {
				t.Errorf("facts of %q (-want +got):\n%s", tc.reply, diff)
			}
		})
	}
}

// readFacts reads a message to a workflow's customer with facts and other values that it may state.
func readFacts(o *Judge, message string, facts []scenarios.Fact, known ...string) []grader.Finding {
	return o.ReadMessage(&scenarios.Workflow{Language: "en", Facts: facts, AllowedValues: known}, message).Facts
}

// TestLabelledValueIsStated reads values in lists with labels.
func TestLabelledValueIsStated(t *testing.T) {
	facts := []scenarios.Fact{{ID: "f1", Value: "March 26, 2026", Context: []string{"estimate", "deliver", "date",
		"expect", "come", "due"}}}
	for reply, want := range map[string]grader.Finding{
		"Hello,\n\n- Estimated delivery: March 26, 2026\n\nRegards": stated,
		"estimate deliver date expect come due March 26, 2026":      missing,
	} {
		if diff := cmp.Diff([]grader.Finding{want}, readFacts(New(), reply, facts)); diff != "" {
			t.Errorf("facts of %q (-want +got):\n%s", reply, diff)
		}
	}
}

// TestKnownTimesContradictNothing states when a parcel was seen and when it can be traced.
func TestKnownTimesContradictNothing(t *testing.T) {
	facts := []scenarios.Fact{{ID: "f1", Value: "March 20, 2026", Context: []string{"trace"}}}
	const reply = "The last scan before a trace was on March 13. A trace can be opened on March 20, 2026."
	judge := New()
	if diff := cmp.Diff([]grader.Finding{stated}, readFacts(judge, reply, facts, "scanned on March 13, 2026")); diff != "" {
		t.Errorf("the facts with a known date (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]grader.Finding{contradicted}, readFacts(judge, reply, facts)); diff != "" {
		t.Errorf("the facts with an unknown date (-want +got):\n%s", diff)
	}
}

func TestCommits(t *testing.T) {
	tests := map[string]struct {
		reply string
		want  bool
	}{
		"a promise":      {"We will refund the full amount to your card today.", true},
		"in other words": {"You will get your money back this week.", true},
		"a denial":       {"We cannot refund this order.", false},
		"a condition":    {"If finance approves it, the amount will be refunded.", false},
		"the bank's act": {"Your bank has already started a chargeback and holds the money.", false},
		"a chargeback":   {"We have initiated a chargeback for you.", true},
		"another thing":  {"Your parcel is on its way.", false},
	}
	judge := New()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &scenarios.Workflow{Language: "en", Forbidden: []scenarios.ForbiddenAction{{Verbs: []string{"refund"}}}}
			if got := judge.ReadMessage(w, tc.reply).Commits[0]; (got != "") != tc.want {
				t.Errorf("%q commits: %q, want %t", tc.reply, got, tc.want)
			}
		})
	}
}
