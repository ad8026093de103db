package facts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/facts"
)

func TestJoin(t *testing.T) {
	amount, team, other := facts.Fact{What: "refund_amount", Value: "1"}, facts.Fact{What: "team", Value: "legal"},
		facts.Fact{What: "refund_amount", Value: "2"}
	for name, c := range map[string]struct{ earlier, later, want []facts.Fact }{
		"nothing more":     {[]facts.Fact{amount}, nil, []facts.Fact{amount}},
		"the first":        {nil, []facts.Fact{amount}, []facts.Fact{amount}},
		"another name":     {[]facts.Fact{amount}, []facts.Fact{team}, []facts.Fact{amount, team}},
		"the same name":    {[]facts.Fact{amount, team}, []facts.Fact{other}, []facts.Fact{team, other}},
		"twice in one":     {nil, []facts.Fact{amount, other}, []facts.Fact{amount, other}},
		"two replaced":     {[]facts.Fact{amount, other, team}, []facts.Fact{amount}, []facts.Fact{team, amount}},
		"two replace one":  {[]facts.Fact{amount}, []facts.Fact{other, amount}, []facts.Fact{other, amount}},
		"neither of a few": {nil, nil, nil},
	} {
		before := slices.Clone(c.earlier)
		if diff := cmp.Diff(c.want, facts.Join(c.earlier, c.later)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(before, c.earlier); diff != "" {
			t.Errorf("%s: the earlier facts changed\n%s", name, diff)
		}
	}
}

func TestDescribeHasEveryName(t *testing.T) {
	lines := strings.Split(facts.Describe(), "\n")
	if len(lines) != len(facts.Vocabulary) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, n := range facts.Vocabulary {
		if !strings.HasPrefix(lines[i], n.What+": "+n.Meaning+" (") {
			t.Errorf("%s: %q", n.What, lines[i])
		}
		for _, v := range n.Values {
			if !strings.Contains(lines[i], v) {
				t.Errorf("%s lacks %s", n.What, v)
			}
		}
	}
}
