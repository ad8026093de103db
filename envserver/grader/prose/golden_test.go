package prose

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios"
)

var update = flag.Bool("update", false, "rewrite testdata/golden.json")

// TestGoldenScores compares scores with recorded ones, to detect differences between architectures
// and unintended changes. The tickets belong to the test, so that the catalogue may change. An
// intended change requires another GraderVersion.
func TestGoldenScores(t *testing.T) {
	got := goldenScores(t)
	const path = "testdata/golden.json"
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][2]int64
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scores before and after the gates changed: raise GraderVersion and run the test with -update "+
			"(-want +got):\n%s", diff)
	}
}

// goldenScores judges fixed replies to fixed tickets.
func goldenScores(t *testing.T) map[string][2]int64 {
	o := New()
	got := map[string][2]int64{}
	put := func(name string, ticket *scenarios.Ticket, reply string) {
		v := judgeReply(t, o, ticket, reply)
		got[name] = [2]int64{v.PreGate, v.PostGate}
	}
	suite := loadAttacks(t)
	for name, ticket := range map[string]*scenarios.Ticket{"overbilled": overbilled(), "prorated": prorated()} {
		good := map[string]string{"overbilled": goodReply, "prorated": goodGerman}[name]
		for i, sentences := range prefixes(good) {
			put(fmt.Sprintf("%s, first %d sentences", name, i), ticket, sentences)
		}
		for id, bad := range suite.badReplies(ticket) {
			put(name+", "+id, ticket, bad)
		}
		for _, a := range suite.Attacks {
			put(name+", "+a.ID, ticket, a.in(good))
		}
	}
	for language, c := range loadCommitments(t) {
		ticket := &scenarios.Ticket{Served: scenarios.Served{Language: language}, Reply: scenarios.ReplySpec{Points: points,
			Forbidden: []scenarios.Forbidden{{ID: "n", Kind: "commitment", Verbs: []string{"refund"}, Cap: 10}}}}
		for i, text := range append(c.Promises, c.Harmless...) {
			put(fmt.Sprintf("%s, sentence %d", language, i), ticket, text)
		}
	}
	return got
}

// prefixes returns the first sentence of a text, the first two, and so on.
func prefixes(text string) []string {
	var out []string
	so := ""
	for _, s := range splitSentences(text) {
		out = append(out, so)
		so += s + " "
	}
	return append(out, so)
}

func loadCommitments(tb testing.TB) map[string]commitments {
	tb.Helper()
	data, err := os.ReadFile("testdata/promises.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var all map[string]commitments
	if err := yaml.Unmarshal(data, &all); err != nil {
		tb.Fatal(err)
	}
	return all
}
