package harm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader/text"
)

func read(t *testing.T, wording string) (*text.Document, text.Span) {
	t.Helper()
	d := text.Parse(text.Fold(wording), text.LoadLexicon("en"))
	if len(d.Sentences) != 1 {
		t.Fatalf("%d sentences in %q", len(d.Sentences), wording)
	}
	return d, d.Sentences[0]
}

func TestFeatures(t *testing.T) {
	d, s := read(t, "Nobody promised you $5.00, nobody!")
	want := []string{"bias", "~nobod", "nobod", "^ nobod", "~promis", "promis", "nobod promis", "you", "promis you",
		"#!0", "you #!0", "#!0 nobod", "!", "nobod !", "! $", "new>0", "new>1", "new>2", "new>=.2", "new>=.4",
		"new>=.6", "new>=.8"}
	if diff := cmp.Diff(want, ExtractFeatures(d, s, func(int) bool { return false }, false)); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
}

// TestScoreAddsWeights compares the score with the sum of the weights of Features.
func TestScoreAddsWeights(t *testing.T) {
	for _, wording := range []string{
		"I have already refunded you and guarantee that this never happens again.",
		"If nothing has arrived by Friday, please write to us again, and we'll look into it again.",
	} {
		d, s := read(t, wording)
		for _, known := range []bool{true, false} {
			sum := 0
			for _, f := range ExtractFeatures(d, s, func(int) bool { return known }, !known) {
				sum += weights()[hashFeature(f, "", "")]
			}
			if got := ScoreSentence(d, s, func(int) bool { return known }, !known); got != sum || sum == 0 {
				t.Errorf("%q, known %t: score %d, weights add up to %d", wording, known, got, sum)
			}
		}
	}
}

func TestParseRefusesAMissingWeight(t *testing.T) {
	if _, err := parseWeights("a\t1\nb\n"); err == nil {
		t.Error("no error")
	}
}
