package prose

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/envserver/testkit"
)

var author = flag.String("author", "", "scenario whose harmful statements are being written: print the sentences of "+
	"testdata that they miss, and the harmless ones that they match")

// keptBack reports whether a sentence is in the half that the authors of the scenarios' harmful
// statements don't read.
func keptBack(sentence string) bool {
	h := fnv.New32a()
	h.Write([]byte(sentence))
	return h.Sum32()%2 == 1
}

// matched returns the first harmful statement of the scenario in a text, or nil.
func matched(p *prepared, wording string) *harmful {
	r := &analysis{prepared: p, doc: text.Parse(text.Fold(text.Normalise(wording)), p.lex)}
	for _, s := range r.doc.Sentences {
		if h := r.named(s); h != nil {
			return h
		}
	}
	return nil
}

// TestNamedStatements counts the sentences that match the scenarios' harmful statements. Good
// references match none, and few harmless sentences do.
func TestNamedStatements(t *testing.T) {
	c, o := testkit.Catalog(t), New()
	cases := map[string]*prepared{}
	hits, of := map[string]int{}, map[string]int{}
	for _, l := range lines[struct {
		Scenario, Text string
		Seed           int64
		Harmful        bool
	}](t, "testdata/sentences.jsonl") {
		key := fmt.Sprint(l.Scenario, l.Seed)
		if cases[key] == nil {
			var good []string
			cases[key], good = prepareCase(t, c, o, l.Scenario, cmp.Or(l.Seed, 11))
			for _, reply := range good {
				if h := matched(cases[key], reply); h != nil {
					t.Errorf("a good reply to %s %s: %s", l.Scenario, h.Why, reply)
				}
			}
		}
		kind := map[bool]string{true: "unseen", false: "seen"}[keptBack(l.Text)] +
			map[bool]string{true: " harmful", false: " harmless"}[l.Harmful]
		h := matched(cases[key], l.Text)
		of[kind]++
		if h != nil {
			hits[kind]++
		}
		if l.Scenario == *author && !keptBack(l.Text) && l.Harmful != (h != nil) {
			t.Logf("harmful %t, matched %t: %s", l.Harmful, h != nil, l.Text)
		}
	}
	for kind, bounds := range map[string][2]int{"seen harmful": {40, 100}, "seen harmless": {0, 1},
		"unseen harmful": {9, 100}, "unseen harmless": {0, 2}} {
		t.Logf("%-15s %4d of %4d", kind, hits[kind], of[kind])
		if percent := 100 * hits[kind] / of[kind]; percent < bounds[0] || percent > bounds[1] {
			t.Errorf("%d %% of the %s sentences match, want %d to %d", percent, kind, bounds[0], bounds[1])
		}
	}
}
