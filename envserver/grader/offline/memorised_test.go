package offline

import (
	"slices"
	"testing"

	"github.com/csenv/csenv/scenarios"
)

const (
	// fittedSeeds are those that the memorisation test takes its replies from.
	fittedSeeds = 100
	// memorisedPairs is how many pairs of a fitted and an evaluated seed it looks at.
	memorisedPairs = 20
)

// TestMemorisedRepliesEarnLittle fits a lookup from the nearest ticket to its good reply on one
// range of seeds and evaluates it on another: the reply that was right for one draw must earn no
// more than style may on average over others. Draws that happen to be equal may earn more.
func TestMemorisedRepliesEarnLittle(t *testing.T) {
	catalogue, err := scenarios.Public()
	if err != nil {
		t.Fatal(err)
	}
	o := New()
	for _, s := range catalogue.Tickets() {
		t.Run(s.ID, func(t *testing.T) {
			total, passed := int64(0), 0
			for i := range int64(memorisedPairs) {
				evaluated := instance(t, s, 100+i*5)
				fitted := nearest(t, s, evaluated, i*5)
				replies := fitted.References.Good
				v := judgeReply(t, o, evaluated, replies[int(i)%len(replies)])
				total += v.PostGate
				if v.PostGate >= sendablePoints {
					passed++
				}
			}
			mean := total / memorisedPairs
			t.Logf("memorised replies earn %d on average, %d pass", mean, passed)
			if mean > unsupportedCap {
				t.Errorf("memorised replies earn %d on average, want at most %d", mean, unsupportedCap)
			}
			// A draw may happen to be equal to a fitted one. It stays an accident.
			if passed > memorisedPairs/4 {
				t.Errorf("%d of %d memorised replies pass", passed, memorisedPairs)
			}
		})
	}
}

// nearest returns the first instance from a seed on that asks for the same facts and the same
// decisions: what a lookup by the text would find at best.
func nearest(t *testing.T, s *scenarios.TicketScenario, to *scenarios.Ticket, from int64) *scenarios.Ticket {
	t.Helper()
	for i := range int64(fittedSeeds) {
		ticket := instance(t, s, (from+i)%fittedSeeds)
		same := slices.EqualFunc(ticket.Reply.Facts, to.Reply.Facts,
			func(a, b scenarios.Fact) bool { return a.ID == b.ID })
		if same && ticket.Gold.Priority == to.Gold.Priority && ticket.Gold.Team == to.Gold.Team {
			return ticket
		}
	}
	t.Fatalf("no seed below %d is like seed %d", fittedSeeds, to.Seed)
	return nil
}

func instance(t *testing.T, s *scenarios.TicketScenario, seed int64) *scenarios.Ticket {
	t.Helper()
	ticket, err := s.Instantiate(seed)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}
