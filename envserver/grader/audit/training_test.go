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
	const folder = "../../../config/samples/training/desk"
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
	for _, label := range append(scenarios.Categories, scenarios.Priorities...) {
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
	var targets []*target
	for i, s := range training(t).Tickets() {
		ticket, err := s.Instantiate(int64(i))
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, &target{ticket: ticket})
	}
	for _, a := range listAttacks() {
		most, wanted := passed[a.name]
		if !wanted {
			continue
		}
		delete(passed, a.name)
		sums, err := a.play(t.Context(), offline.New(), targets, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := sums.figures(true)[PassedShare]; sums.episodes < 300 || got > most {
			t.Errorf("%s: %d of 1000 of %d episodes passed, want at most %d of 300 or more", a.name, got, sums.episodes,
				most)
		}
	}
	if len(passed) > 0 {
		t.Errorf("not played: %v", passed)
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
