package audit

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/pack"
)

// training returns the tickets of the training pack.
func training(t *testing.T) *scenarios.Catalog {
	t.Helper()
	const folder = "../../config/samples/training/desk"
	c, err := scenarios.LoadFolders("", folder)
	if err != nil {
		t.Fatal(err)
	}
	return c.Only(func(p pack.Info) bool { return p.Folder == folder })
}

// TestTrainingTicketsAreSpread bounds what constants and keywords earn, and the share of each
// label.
func TestTrainingTicketsAreSpread(t *testing.T) {
	c := training(t)
	rows, err := CountMarginals(c)
	if err != nil {
		t.Fatal(err)
	}
	all := rows[0].Counts
	for _, label := range append(scenarios.ListCategories(), scenarios.ListPriorities()...) {
		if share := float64(all[label]) / float64(all["tickets"]); share < 0.15 || share > 0.4 {
			t.Errorf("%.2f of the tickets are %s, want 0.15 to 0.40", share, label)
		}
	}
	figures, err := GradeShortcuts(c, scenarios.ReadKeywords, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures[:len(figures)-2] { // the last two know the priority
		if f.Classify > 550 {
			t.Errorf("%s earns %d of 1000 in ticket-classify, want at most 550", f.Policy, f.Classify)
		}
	}
}

// TestAttacksOnTrainingTickets plays the attacks that need no memory on a part of the tickets.
func TestAttacksOnTrainingTickets(t *testing.T) {
	passed := map[string]int64{"right prose without facts": 0, "every team": 0, "always finance": 150}
	judge := offline.New()
	tallies := map[string]*ticketTally{}
	for i, s := range training(t).Tickets() {
		ticket, err := s.Instantiate(int64(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range listAttacks() {
			if _, ok := passed[a.name]; !ok {
				continue
			}
			if tallies[a.name] == nil {
				tallies[a.name] = &ticketTally{}
			}
			for _, try := range a.attempts(&target{ticket: ticket}) {
				if err := tallies[a.name].play(t.Context(), judge, ticket, try); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, most := range passed {
		row := tallies[name].row(attack{name: name})
		t.Logf("%s: %d episodes, %d passed of 1000", name, row.Episodes, row.Passed)
		if row.Episodes < 300 || row.Passed > most {
			t.Errorf("%s: %d of 1000 of %d episodes passed, want at most %d of 300 or more", name, row.Passed,
				row.Episodes, most)
		}
	}
}

func TestPublicTicketsAreWritten(t *testing.T) {
	tickets := testkit.Catalog(t).Tickets()
	for _, s := range tickets {
		if s.Generated() {
			t.Errorf("%s is generated", s.ID)
		}
	}
	if len(tickets) != publicTickets {
		t.Errorf("%d tickets, want %d", len(tickets), publicTickets)
	}
}
