package audit

import (
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
)

// TestAttacksStayWithinTheirLimits plays the attacks on the public catalogue. The minimum of each
// figure shows that the attack does what it says: a reply that says nothing would earn less.
func TestAttacksStayWithinTheirLimits(t *testing.T) {
	least := map[string]int64{
		"gold (control)":                   500,
		"right prose without facts":        0,
		"right facts without their values": 0,
		"enumeration of values":            0,
		"every team":                       0,
		"ids and sums of the ticket":       0,
		"always explained":                 0,
		"always finance":                   0,
		"the decision and nothing else":    10,
		"workflow dump":                    150,
		"case, nearest neighbour":          0,
		"case, look-ups and a refusal":     40,
		"case, look-ups and a hand-over":   10,
		"case, look-ups and every team":    0,
		"case, records under their names":  0,
	}
	c := testkit.Catalog(t)
	rows, err := PlayAttacks(t.Context(), c, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(least) {
		t.Errorf("%d rows, want %d", len(rows), len(least))
	}
	for _, r := range rows {
		t.Logf("%-34s %4d episodes, episode %4d, passed %4d, %+v", r.Attack, r.Episodes, r.Episode, r.Passed, *r.Limit)
		if want, ok := least[r.Attack]; !ok || r.Limit.Value < want || r.Episodes < 20 {
			t.Errorf("%s: %d episodes, the %s is %d, want at least %d", r.Attack, r.Episodes, r.Limit.Figure,
				r.Limit.Value, want)
		}
	}
	for _, f := range AttackFindings(c, rows) {
		t.Error(f.Message)
	}
}

func TestAttackFindings(t *testing.T) {
	atMost := func(value int64) *Limit { return &Limit{Figure: wholeEpisode, Value: value, Bound: 420} }
	atLeast := func(value int64) *Limit { return &Limit{Figure: lowestReply, Value: value, Bound: 450, Least: true} }
	tests := map[string]struct {
		limit *Limit
		want  string
	}{
		"at the maximum":    {atMost(420), ""},
		"above the maximum": {atMost(421), "attack echo: the episode earns 421 of 1000, want at most 420"},
		"at the minimum":    {atLeast(450), ""},
		"below the minimum": {atLeast(449), "attack echo: the lowest reply earns 449 of 1000, want at least 450"},
		"no limit":          {nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range AttackFindings(testkit.Catalog(t), []AttackRow{{Attack: "echo", Limit: tt.limit}}) {
				got = append(got, f.Rule+" "+f.Message)
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("findings %q, want %q", got, tt.want)
			}
		})
	}
}

// TestAttacksOnOtherPacks checks that the limits are for the public pack.
func TestAttacksOnOtherPacks(t *testing.T) {
	rows, err := PlayAttacks(t.Context(), small(t), offline.New())
	if err != nil || len(rows) == 0 {
		t.Fatal(rows, err)
	}
	for _, r := range rows {
		if r.Limit != nil {
			t.Errorf("%s has the limit %+v", r.Attack, *r.Limit)
		}
	}
}
