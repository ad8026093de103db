package prose

import (
	"slices"
	"testing"

	"github.com/csenv/csenv/scenarios"
)

const (
	// fittedSeeds is the number of seeds from which the memorised replies are taken.
	fittedSeeds = 100
	// memorisedPairs is the number of pairs of a fitted and an evaluated seed.
	memorisedPairs = 20
)

// The test looks up the nearest ticket of one range of seeds for each ticket of another range, and
// sends its good reply. On average it must earn no more than style alone may. Draws that happen to
// be equal may earn more.
func TestMemorisedRepliesEarnLittle(t *testing.T) {
	catalogue, err := scenarios.LoadPublic()
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
			// A draw may be equal to a fitted one by chance.
			if passed > memorisedPairs/4 {
				t.Errorf("%d of %d memorised replies pass", passed, memorisedPairs)
			}
		})
	}
}

// nearest returns the first instance, from a seed on, with the same facts and decisions: the best
// result of a look-up by text.
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
