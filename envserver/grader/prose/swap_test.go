package prose

import (
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// TestSwappedValues exchanges the values of two facts in good replies: both belong to the ticket,
// but are in the wrong places.
func TestSwappedValues(t *testing.T) {
	tickets, err := pool()
	if err != nil {
		t.Fatal(err)
	}
	o := New()
	swapped, unnoticed := 0, 0
	for _, ticket := range tickets {
		p := o.prepared(ticket)
		good := ticket.References.Good[0]
		before := judgeReply(t, o, ticket, good).PostGate
		for i := range p.facts {
			for k := range i {
				reply, ok := exchange(good, p, ticket.Reply.Facts, i, k)
				if !ok {
					continue
				}
				swapped++
				if after := judgeReply(t, o, ticket, reply).PostGate; after >= before {
					unnoticed++
					t.Logf("%s: %s and %s swapped: %d before, %d after\n%s", ticket.ScenarioID, p.facts[i].id,
						p.facts[k].id, before, after, reply)
				}
			}
		}
	}
	if 5*unnoticed > swapped {
		t.Errorf("%d of %d exchanges earn as much as the good reply, want a fifth at most", unnoticed, swapped)
	}
}

// exchange swaps the values of two facts of one kind if the reply contains each once.
func exchange(reply string, p *prepared, facts []scenarios.Fact, i, k int) (string, bool) {
	x, y := p.facts[i].forms[0].values, p.facts[k].forms[0].values
	if len(x) != 1 || len(y) != 1 || x[0].Kind != y[0].Kind || x[0].Equal(y[0]) ||
		strings.Count(reply, facts[i].Value) != 1 || strings.Count(reply, facts[k].Value) != 1 {
		return "", false
	}
	a, b := numberOf(facts[i].Value, x[0]), numberOf(facts[k].Value, y[0])
	return strings.NewReplacer(a, b, b, a).Replace(reply), true
}

// numberOf returns the part of a value that is exchanged: a number without its unit.
func numberOf(value string, c text.Value) string {
	if c.Kind == text.NumberValue {
		value, _, _ = strings.Cut(value, " ")
	}
	return value
}
