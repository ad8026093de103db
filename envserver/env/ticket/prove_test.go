package ticket

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/pack"
)

// trainingTickets returns the tickets of the training pack.
func trainingTickets(t *testing.T) []*scenarios.TicketScenario {
	t.Helper()
	const folder = "../../../config/samples/training/desk"
	c, err := scenarios.LoadFolders("", folder)
	if err != nil {
		t.Fatal(err)
	}
	return c.Only(func(p pack.Info) bool { return p.Folder == folder }).Tickets()
}

func TestTrainingTicketsAreProved(t *testing.T) {
	judge := offline.New()
	for _, s := range trainingTickets(t) {
		for seed := range int64(3) {
			ticket, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			tried, faults, err := Prove(t.Context(), ticket, judge)
			if err != nil || tried != 4 || len(faults) > 0 {
				t.Errorf("%s, seed %d: %d episodes, %q, %v", s.ID, seed, tried, faults, err)
			}
		}
	}
}

func TestProveNoticesFaults(t *testing.T) {
	s := trainingTickets(t)[0]
	for name, spoil := range map[string]func(*scenarios.Ticket){
		"a wrong reply": func(t *scenarios.Ticket) { t.References.Good = []string{"We look into it."} },
		"no gold":       func(t *scenarios.Ticket) { t.Gold.Category, t.Gold.Priority = "", "" },
	} {
		ticket, err := s.Instantiate(0)
		if err != nil {
			t.Fatal(err)
		}
		spoil(ticket)
		if _, faults, err := Prove(t.Context(), ticket, offline.New()); err != nil || len(faults) == 0 {
			t.Errorf("%s: no fault, %v", name, err)
		}
	}
}
