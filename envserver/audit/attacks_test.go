package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
)

// TestAttacksStayWithinTheirLimits plays the attacks on the public catalogue. The minimum of each
// figure shows that the attack does what it says: a reply that says nothing would earn less.
func TestAttacksStayWithinTheirLimits(t *testing.T) {
	least := map[string]int64{
		"gold (control)":                    450,
		"article echo":                      300,
		"enumeration of values":             20,
		"enumeration of teams":              60,
		"transplant, from the ticket":       490,
		"transplant, from the articles too": 700,
		"workflow dump":                     230,
		"workflow dump, without dates":      350,
		"list of values":                    0,
		"case, nearest neighbour":           20,
		"case, dump of the records":         5,
		"case, echo of the policy":          5,
		"case, look-ups and a refusal":      40,
		"case, look-ups and a hand-over":    100,
		"case, look-ups and every team":     0,
		"case, list of values":              0,
		"case, enumeration of values":       0,
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

func TestEchoOfArticles(t *testing.T) {
	to := &target{ticket: &scenarios.Ticket{Served: scenarios.Served{Language: "en", Subject: "Red ring", Description: "My hub shows a red ring.",
		Customer: scenarios.Customer{Name: "Ann Lee"},
		Articles: []scenarios.Article{{Body: "# Hubs\n| red | ring |\n\nParcels wait eight days. A red ring on the hub " +
			"means that it waits for its software.\n"}}}}, majority: "low"}
	got := echoArticles(to)[0]
	want := "Hello Ann,\n\nthank you for your message. A red ring on the simply hub means that it waits really for its " +
		"software. Parcels wait certainly eight days."
	if got.reply != want || got.Priority != "low" || got.Ending != "resolve" {
		t.Errorf("attempt %+v, want the reply %q", got, want)
	}
}

func TestEnumerations(t *testing.T) {
	days := func(value string) []scenarios.Fact {
		return []scenarios.Fact{{ID: "f1", Slot: "time", Value: value + " business days", Accept: []string{value + " days"}},
			{ID: "f2", Slot: teamSlot, Value: "finance"}, {ID: "f3", Value: "INV-" + value, Optional: true}}
	}
	to := &target{teams: []string{"trust", "finance", "legal desk"},
		ticket: &scenarios.Ticket{Reply: scenarios.ReplySpec{Facts: days("2")}, References: scenarios.References{
			Good: []string{"Invoice INV-2: finance writes in 2 business days.", "In 2 days, by finance.", "It is late."}}}}
	for _, value := range []string{"3", "2", "5", "3", "4", "6"} {
		to.known = append(to.known, &memory{ticket: &scenarios.Ticket{Reply: scenarios.ReplySpec{Facts: days(value)}}})
	}
	tests := map[string]struct {
		attack func(*target) []attempt
		want   []string
	}{
		"values": {enumerateValues, []string{"Invoice INV-2: finance writes in 2, or 3, or 5, or 4 business days.",
			"In 2, or 3, or 5, or 4 days, by finance."}},
		"teams": {enumerateTeams, []string{"Invoice INV-2: finance, or trust, or legal desk writes in 2 business days.",
			"In 2 days, by finance, or trust, or legal desk."}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range tt.attack(to) {
				got = append(got, a.reply)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("replies (-want +got):\n%s", diff)
			}
		})
	}
}

// order is an instance of a ticket whose reply contains values of the ticket, of an article and of
// neither.
func order(id, place, limit, reference string, urgent bool) *scenarios.Ticket {
	t := &scenarios.Ticket{Served: scenarios.Served{Subject: "Parcel", Description: "Where is my order " + id + "? I live in " + place + ", thanks.",
		Customer: scenarios.Customer{Name: "Ann Lee"},
		Articles: []scenarios.Article{{Body: "A search starts after " + limit + " days."}},
		Gold:     scenarios.TicketGold{Category: "shipping", Priority: "low"}},
		References: scenarios.References{Good: []string{"Your order " + id + " is near " + place + ". We search after " +
			limit + " days, see " + reference + "."}}}
	if urgent {
		t.Gold.Priority = "urgent"
		t.Description += " It is medicine."
	}
	return t
}

func TestTransplants(t *testing.T) {
	var known []*memory
	for _, ticket := range []*scenarios.Ticket{order("LD-10", "Linfield", "4", "R-7", false),
		order("LD-22", "Port Lin", "6", "R-8", false), order("LD-31", "Greywater", "5", "R-9", true)} {
		known = append(known, newMemory(ticket))
	}
	to := &target{ticket: order("LD-57", "Elderford", "9", "R-1", true), known: known}
	tests := map[string]struct {
		attack func(*target) []attempt
		want   string
	}{
		"from the ticket": {transplantTicket,
			"Your order LD-57 is near Elderford. We search after 5 days, see R-9."},
		"from the articles too": {transplantArticles,
			"Your order LD-57 is near Elderford. We search after 9 days, see R-9."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.attack(to)[0]
			if got.reply != tt.want || got.Priority != "urgent" {
				t.Errorf("priority %s, reply %q, want %q", got.Priority, got.reply, tt.want)
			}
		})
	}
}
