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
		"gold (control)": 500, "the decision and nothing else": 10, "workflow dump": 150,
		"case, look-ups and a refusal": 40, "case, look-ups and a hand-over": 10,
		"O A with all facts": 150, "O P A with all facts": 350, "O P E A with all facts": 250,
		"O P A with copied fields": 100,
	}
	c := testkit.Catalog(t)
	rows, err := PlayAttacks(t.Context(), c, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(listAttacks()) {
		t.Errorf("%d rows, want %d", len(rows), len(listAttacks()))
	}
	for _, r := range rows {
		t.Logf("%-34s %4d episodes, %v", r.Attack, r.Episodes, r.Figures)
		if got := r.Figures[r.Limits[0].Figure]; got < least[r.Attack] || r.Episodes < 20 {
			t.Errorf("%s: %d episodes, the %s is %d, want at least %d", r.Attack, r.Episodes, r.Limits[0].Figure, got,
				least[r.Attack])
		}
		delete(least, r.Attack)
	}
	if len(least) > 0 {
		t.Errorf("not played: %v", least)
	}
	for _, f := range AttackFindings(c, rows) {
		t.Error(f.Message)
	}
}

func TestAttackFindings(t *testing.T) {
	atMost, atLeast := Limit{Figure: MeanEpisode, Bound: 420}, Limit{LowestReply, 450, true}
	tests := map[string]struct {
		limits []Limit
		value  int64
		want   string
	}{
		"at the maximum":    {[]Limit{atMost}, 420, ""},
		"above the maximum": {[]Limit{atMost}, 421, "attack echo: the episode earns 421 of 1000, want at most 420"},
		"at the minimum":    {[]Limit{atLeast}, 450, ""},
		"below the minimum": {[]Limit{atLeast}, 449, "attack echo: the lowest reply earns 449 of 1000, want at least 450"},
		"one of two":        {[]Limit{atLeast, atMost}, 451, "attack echo: the episode earns 451 of 1000, want at most 420"},
		"no limit":          {nil, 1000, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			row := AttackRow{Attack: "echo", Limits: tt.limits,
				Figures: map[string]int64{MeanEpisode: tt.value, LowestReply: tt.value}}
			for _, f := range AttackFindings(testkit.Catalog(t), []AttackRow{row}) {
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
		if r.Limits != nil {
			t.Errorf("%s has the limits %+v", r.Attack, r.Limits)
		}
	}
}
