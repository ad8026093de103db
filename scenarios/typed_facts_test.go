package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/csenv/csenv/scenarios/facts"
)

// told is what an instance wants to be told, and a reply that tells it.
type told struct {
	name               string
	language           string
	now                time.Time
	required, optional []facts.Wanted
	replies            []string
}

// eachInstance calls a function with instances of the catalogue: five of each ticket and workflow,
// two of each generated case.
func eachInstance(t *testing.T, check func(in told)) {
	t.Helper()
	c, err := LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Tickets() {
		for seed := range int64(5) {
			i, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			check(told{fmt.Sprintf("%s, seed %d", s.ID, seed), i.Language, i.Now, i.Required(), i.Optional(),
				i.References.Good})
		}
	}
	for _, s := range c.Workflows() {
		seeds := int64(5)
		if s.Family != "" {
			seeds = 2
		}
		for seed := range seeds {
			i, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			check(told{fmt.Sprintf("%s, seed %d", s.ID, seed), i.Language, i.Now, i.Required(), i.Optional(),
				i.References.Good})
		}
	}
}

// Every instance requires facts of the vocabulary, no more than an agent may state, and no pair
// twice, because a stated pair counts once. An agent that states them beside any good reply is
// wholly right.
func TestRequiredFacts(t *testing.T) {
	total, missed := 0, 0
	eachInstance(t, func(in told) {
		if len(in.required) == 0 || len(in.required) > facts.MaxStated {
			t.Errorf("%s requires %d facts, want 1 to %d", in.name, len(in.required), facts.MaxStated)
		}
		stated := make([]facts.Fact, 0, len(in.required))
		for _, f := range in.required {
			stated = append(stated, facts.Fact{What: f.What, Value: f.Values[0]})
		}
		context := facts.NewContext(in.language, in.now)
		gold := facts.NewLibrary().Gold(context, facts.Served{}, in.required, in.optional, true)
		for i, reply := range in.replies {
			result := gold.Compare(stated, context.NewMessage(reply))
			for k, finding := range result.Required {
				if total++; finding != facts.Right {
					missed++
					t.Errorf("%s: good reply %d: %s %v is %s", in.name, i+1, in.required[k].What, in.required[k].Values, finding)
				}
			}
		}
	})
	t.Logf("%d required facts in good replies, %d missed", total, missed)
}
