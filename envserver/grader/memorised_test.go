package grader

import (
	"testing"

	"github.com/csenv/csenv/scenarios"
)

// memorisedPairs is how many pairs of a fitted and an evaluated seed the memorisation test looks at.
const memorisedPairs = 20

// TestMemorisedRepliesEarnLittle fits a lookup from a ticket to its good reply on one range of seeds and evaluates it on another: the reply that was
// right for one draw must earn no more than style may on average over others. Draws that happen to be equal may earn more.
func TestMemorisedRepliesEarnLittle(t *testing.T) {
	catalogue, err := scenarios.Public()
	if err != nil {
		t.Fatal(err)
	}
	o := NewOffline()
	for _, s := range catalogue.Tickets() {
		t.Run(s.ID, func(t *testing.T) {
			total := int64(0)
			for i := range int64(memorisedPairs) {
				fitted, evaluated := instance(t, s, i*5), instance(t, s, 100+i*5)
				replies := fitted.References.Good
				v := judgeReply(t, o, evaluated, replies[int(i)%len(replies)])
				total += v.PostGate
			}
			mean := total / memorisedPairs
			t.Logf("memorised replies earn %d on average", mean)
			if mean > unsupportedCap {
				t.Errorf("memorised replies earn %d on average, want at most %d", mean, unsupportedCap)
			}
		})
	}
}

func instance(t *testing.T, s *scenarios.TicketScenario, seed int64) *scenarios.Ticket {
	t.Helper()
	ticket, err := s.Instantiate(seed)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}
