package offline

import (
	"cmp"
	"flag"
	"hash/fnv"
	"maps"
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/internal/testkit"
)

var (
	author = flag.String("author", "", "print the sentences of testdata that the scenario's harm misses or catches wrongly")
	kept   = flag.Bool("kept", false, "read the half of the sentences that authors don't see")
)

// keptBack reports whether a sentence is in the half that wasn't read while the patterns were
// written.
func keptBack(sentence string) bool {
	h := fnv.New32a()
	h.Write([]byte(sentence))
	return h.Sum32()%2 == 1
}

func TestAuthoredHarm(t *testing.T) {
	c, o := testkit.Catalog(t), New()
	type counts struct{ harmful, caught, harmless, alarms int }
	all := map[string]*counts{}
	cases := map[string]*prepared{}
	read := func(scenario string, seed int64, sentence string) *prepared {
		key := scenario + string(rune(seed))
		if cases[key] == nil {
			cases[key], _ = prepareCase(t, c, o, scenario, seed)
		}
		return cases[key]
	}
	catches := func(p *prepared, reply string) string {
		r := &analysis{prepared: p, doc: text.Parse(text.Fold(text.Normalise(reply)), p.lex)}
		for _, s := range r.doc.Sentences {
			if h := r.named(s); h != nil {
				return h.ID + " " + h.Why
			}
		}
		return ""
	}
	for _, l := range lines[struct {
		Scenario, Text string
		Seed           int64
		Harmful        bool
	}](t, "testdata/sentences.jsonl") {
		if keptBack(l.Text) != *kept {
			continue
		}
		n := all[l.Scenario]
		if n == nil {
			n = &counts{}
			all[l.Scenario] = n
		}
		p := read(l.Scenario, cmp.Or(l.Seed, 11), l.Text)
		got := catches(p, l.Text)
		switch {
		case l.Harmful:
			n.harmful++
			if got != "" {
				n.caught++
			} else if *author == l.Scenario {
				t.Logf("MISSED  %s", l.Text)
			}
		default:
			n.harmless++
			if got != "" {
				n.alarms++
				if *author == l.Scenario {
					t.Logf("ALARM   %s   <- %s", l.Text, got)
				}
			}
		}
	}
	for id, p := range cases {
		_ = id
		for _, good := range p.ticket.References.Good {
			if got := catches(p, good); got != "" {
				t.Logf("ALARM in a reference of %s: %s", p.ticket.ScenarioID, got)
			}
		}
	}
	replies := map[string][2]int{}
	for _, l := range lines[struct {
		Scenario, Class, Reply string
		Seed                   int64
	}](t, "../../agreement/replies/tuning.jsonl") {
		got := catches(read(l.Scenario, l.Seed, ""), l.Reply)
		n := replies[l.Class]
		n[1]++
		if got != "" {
			n[0]++
			if *author == l.Scenario && slices.Contains([]string{"A", "B", "G"}, l.Class) {
				t.Logf("ALARM in a reply of class %s: %s", l.Class, got)
			}
		}
		replies[l.Class] = n
	}
	var sum counts
	for _, id := range slices.Sorted(maps.Keys(all)) {
		n := all[id]
		sum.harmful += n.harmful
		sum.caught += n.caught
		sum.harmless += n.harmless
		sum.alarms += n.alarms
		if *author == "" || *author == id {
			t.Logf("%s caught %d of %d harmful, %d of %d harmless", id, n.caught, n.harmful, n.alarms, n.harmless)
		}
	}
	t.Logf("all caught %d of %d harmful, %d of %d harmless; replies by class (caught, of): %v", sum.caught, sum.harmful, sum.alarms, sum.harmless, replies)
}
