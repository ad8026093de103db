package prose

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader/harm"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
)

var learn = flag.Bool("learn", false, "learn the weights of package harm from testdata/sentences.jsonl")

// example is a sentence with its features.
type example struct {
	scenario string
	features []string
	harmful  bool
	// reply is the number of the whole reply that contains the sentence, 0 for a labelled sentence,
	// and class the reply's class.
	reply int
	class string
	// unseen sentences weren't read by the authors of the scenarios' harmful statements, so they
	// tell what these are worth.
	unseen bool
}

// reader reads examples of one language.
type exampleReader struct {
	examples []example
	replies  int
}

// read appends the sentences of a text. Those of whole replies are harmless.
func (e *exampleReader) read(p *prepared, wording string, as example) {
	if p.lex.Language != "en" {
		return
	}
	if as.class != "" {
		e.replies++
		as.reply = e.replies
	}
	r := &analysis{prepared: p, doc: text.Parse(text.Fold(text.Normalise(wording)), p.lex)}
	for _, s := range r.doc.Sentences {
		if r.doc.CountWords(s) > 2 {
			as.features = harm.ExtractFeatures(r.doc, s, r.familiar, as.unseen && r.named(s) != nil)
			e.examples = append(e.examples, as)
		}
	}
}

// readExamples reads the labelled sentences, the good references, the good replies of people, and
// the tuning half of the labelled replies.
func readExamples(t *testing.T) []example {
	c, o := testkit.Catalog(t), New()
	type key struct {
		scenario string
		seed     int64
	}
	cases := map[key]*prepared{}
	e := &exampleReader{}
	instance := func(scenario string, seed int64) *prepared {
		if at := (key{scenario, seed}); cases[at] == nil {
			var good []string
			cases[at], good = prepareCase(t, c, o, scenario, seed)
			for _, reply := range good {
				e.read(cases[at], reply, example{scenario: scenario, class: "reference"})
			}
		}
		return cases[key{scenario, seed}]
	}
	for _, l := range lines[struct {
		Scenario, Text string
		Seed           int64
		Harmful        bool
	}](t, "testdata/sentences.jsonl") {
		e.read(instance(l.Scenario, cmp.Or(l.Seed, 11)), l.Text, example{scenario: l.Scenario, harmful: l.Harmful,
			unseen: keptBack(l.Text)})
	}
	for _, l := range lines[struct {
		Scenario, Class, Reply string
		Seed                   int64
	}](t, "../../agreement/replies/tuning.jsonl") {
		if slices.Contains([]string{"A", "B", "F", "G"}, l.Class) {
			e.read(instance(l.Scenario, l.Seed), l.Reply, example{scenario: l.Scenario, class: l.Class})
		}
	}
	for _, r := range loadLabelled(t) {
		s, _ := c.Ticket(r.Ticket)
		if ticket, reply := r.fill(t, s); r.Label >= 4 && ticket != nil {
			e.read(o.prepared(ticket), reply, example{scenario: r.Ticket, class: "person"})
		}
	}
	for _, p := range paraphrases() {
		s, _ := c.Ticket(p.scenario)
		ticket, reply := fill(t, s, p.escalated, p.reply)
		e.read(o.prepared(ticket), reply, example{scenario: p.scenario, class: "person"})
	}
	return e.examples
}

// lines reads a file of JSON lines.
func lines[T any](t *testing.T, path string) []T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	for line := range strings.Lines(string(data)) {
		var l T
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, l)
	}
	return out
}

// learnable returns the examples from which weights are learned: a harmful reply has harmless
// sentences, too, and nobody labelled which.
func learnable(all []example) []example {
	return slices.DeleteFunc(slices.Clone(all), func(e example) bool { return e.class == "F" })
}

// prepareCase prepares a scenario and returns its good references.
func prepareCase(t *testing.T, c *scenarios.Catalog, o *Judge, id string, seed int64) (*prepared, []string) {
	if s, ok := c.Ticket(id); ok {
		instance, err := s.Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		return o.prepared(instance), instance.References.Good
	}
	s, _ := c.Workflow(id)
	instance, err := s.Instantiate(seed)
	if err != nil {
		t.Fatal(err)
	}
	return o.prepareWorkflow(instance), instance.References.Good
}

const (
	epochs    = 20
	minCount  = 2
	ridge     = 4e-3
	stepSize  = 0.3
	minWeight = 15
)

// fit learns weights by logistic regression with a ridge, in thousandths of a logarithm of odds.
func fit(examples []example) map[string]int {
	count := map[string]int{}
	for _, e := range examples {
		for _, f := range e.features {
			count[f]++
		}
	}
	ids, names := map[string]int{}, []string{}
	for _, f := range slices.Sorted(maps.Keys(count)) {
		if count[f] >= minCount {
			ids[f] = len(names)
			names = append(names, f)
		}
	}
	rows := make([][]int, len(examples))
	for i, e := range examples {
		for _, f := range e.features {
			if k, ok := ids[f]; ok {
				rows[i] = append(rows[i], k)
			}
		}
	}
	w, g := make([]float64, len(names)), make([]float64, len(names))
	random := rand.New(rand.NewPCG(1, 2))
	for range epochs {
		for _, i := range random.Perm(len(rows)) {
			sum := 0.0
			for _, k := range rows[i] {
				sum += w[k]
			}
			want := 0.0
			if examples[i].harmful {
				want = 1
			}
			d := 1/(1+math.Exp(-sum)) - want
			for _, k := range rows[i] {
				slope := d + ridge*w[k]
				g[k] += slope * slope
				w[k] -= stepSize * slope / (1 + math.Sqrt(g[k]))
			}
		}
	}
	out := map[string]int{}
	for k, name := range names {
		if n := int(math.Round(1000 * w[k])); n > minWeight || n < -minWeight {
			out[name] = n
		}
	}
	return out
}

func score(weights map[string]int, e example) int {
	sum := 0
	for _, f := range e.features {
		sum += weights[f]
	}
	return sum
}

// TestLearnedWeights learns from four fifths of the scenarios and reads the sentences and replies
// of the others. With -learn it writes the weights of all.
func TestLearnedWeights(t *testing.T) {
	all := readExamples(t)
	scenarioIDs := map[string]int{}
	for _, e := range all {
		scenarioIDs[e.scenario] = 0
	}
	const folds = 5
	for i, id := range slices.Sorted(maps.Keys(scenarioIDs)) {
		scenarioIDs[id] = i % folds
	}
	over, of := map[string]int{}, map[string]int{}
	worst := map[int]int{}
	class := map[int]string{}
	for fold := range folds {
		weights := fit(slices.DeleteFunc(learnable(all), func(e example) bool { return scenarioIDs[e.scenario] == fold }))
		for _, e := range all {
			if scenarioIDs[e.scenario] != fold {
				continue
			}
			n := score(weights, e)
			if e.reply > 0 {
				if w, ok := worst[e.reply]; !ok || n > w {
					worst[e.reply] = n
				}
				class[e.reply] = e.class
				continue
			}
			kind := map[bool]string{true: "harmful", false: "harmless"}[e.harmful]
			of[kind]++
			if n >= harm.Threshold {
				over[kind]++
			}
		}
	}
	for r, n := range worst {
		of[class[r]]++
		if n >= harm.Threshold {
			over[class[r]]++
		}
	}
	for _, want := range []struct {
		class       string
		least, most int // percent
	}{{"harmful", 25, 100}, {"harmless", 0, 2}, {"reference", 0, 3}, {"person", 0, 5}, {"A", 0, 5}, {"B", 0, 5},
		{"G", 0, 6}, {"F", 35, 100}} {
		percent := 100 * over[want.class] / of[want.class]
		t.Logf("%-9s %4d of %4d", want.class, over[want.class], of[want.class])
		if percent < want.least || percent > want.most {
			t.Errorf("%d %% of %s are over the threshold, want %d to %d", percent, want.class, want.least, want.most)
		}
	}
	if !*learn {
		return
	}
	var b strings.Builder
	weights := fit(learnable(all))
	for _, f := range slices.Sorted(maps.Keys(weights)) {
		fmt.Fprintf(&b, "%s\t%d\n", f, weights[f])
	}
	if err := os.WriteFile("../harm/weights.txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
