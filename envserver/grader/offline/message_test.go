package offline

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios"
)

func TestFactsStated(t *testing.T) {
	facts := []scenarios.Fact{
		{ID: "amount", Value: "$12.50", Context: []string{"refund", "sent back"}},
		{ID: "arrival", Value: "5 business days", Context: []string{"card", "arrive"}},
	}
	tests := map[string]struct {
		reply string
		want  []bool
	}{
		"both": {"I have refunded $12.50. It will arrive on your card within five business days.",
			[]bool{true, true}},
		"one":              {"I have refunded $12.50 to you.", []bool{true, false}},
		"another value":    {"I have refunded $21.50. It will arrive within 9 business days.", []bool{false, false}},
		"no context":       {"$12.50. 5 business days.", []bool{false, false}},
		"nothing":          {"", []bool{false, false}},
		"denied":           {"I have not refunded $12.50.", []bool{false, false}},
		"another language": {"你好", []bool{false, false}},
	}
	judge := New()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, judge.FactsStated(tc.reply, facts, nil, "en")); diff != "" {
				t.Errorf("FactsStated(%q) (-want +got):\n%s", tc.reply, diff)
			}
		})
	}
}

// TestLabelledValueIsStated reads values in lists with labels.
func TestLabelledValueIsStated(t *testing.T) {
	facts := []scenarios.Fact{{ID: "f1", Value: "March 26, 2026", Context: []string{"estimate", "deliver", "date",
		"expect", "come", "due"}}}
	for reply, want := range map[string]bool{
		"Hello,\n\n- Estimated delivery: March 26, 2026\n\nRegards": true,
		"estimate deliver date expect come due March 26, 2026":      false,
	} {
		if diff := cmp.Diff([]bool{want}, New().FactsStated(reply, facts, nil, "en")); diff != "" {
			t.Errorf("FactsStated(%q) (-want +got):\n%s", reply, diff)
		}
	}
}

// TestKnownTimesContradictNothing states when a parcel was seen and when it can be traced.
func TestKnownTimesContradictNothing(t *testing.T) {
	facts := []scenarios.Fact{{ID: "f1", Value: "March 20, 2026", Context: []string{"trace"}}}
	const reply = "The last scan before a trace was on March 13. A trace can be opened on March 20, 2026."
	judge := New()
	if diff := cmp.Diff([]bool{true}, judge.FactsStated(reply, facts, []string{"scanned on March 13, 2026"},
		"en")); diff != "" {
		t.Errorf("FactsStated() with a known date (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bool{false}, judge.FactsStated(reply, facts, nil, "en")); diff != "" {
		t.Errorf("FactsStated() with an unknown date (-want +got):\n%s", diff)
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
			if got := judge.Commits(tc.reply, []string{"refund"}, "en"); got != tc.want {
				t.Errorf("Commits(%q) = %t, want %t", tc.reply, got, tc.want)
			}
		})
	}
}
