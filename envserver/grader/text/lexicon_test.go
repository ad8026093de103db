package text

import (
	"strings"
	"testing"
)

func TestLexiconsHaveTheSameKeys(t *testing.T) {
	optional := map[string]bool{"expand": true, "irregular": true, "endings": true, "percents": true, "skip": true,
		"business": true}
	want := linesOf(lexiconText("en"))
	for _, language := range Languages() {
		got := linesOf(lexiconText(language))
		for key := range got {
			if want[key] == nil && !optional[key] {
				t.Errorf("%s has the key %q, which no other language has", language, key)
			}
		}
		for key := range want {
			if got[key] == nil && !optional[key] {
				t.Errorf("%s lacks the key %q", language, key)
			}
		}
		if n := len(got["same"]); n > 64 {
			t.Errorf("%s has %d groups of synonyms, at most 64 have a bit", language, n)
		}
	}
}

func TestLexiconRefusesMoreGroupsThanBits(t *testing.T) {
	if _, err := newLexicon("en", strings.Repeat("same: a b\n", maxGroups)); err != nil {
		t.Errorf("a lexicon with %d groups: %v", maxGroups, err)
	}
	if _, err := newLexicon("en", strings.Repeat("same: a b\n", maxGroups+1)); err == nil {
		t.Errorf("a lexicon with %d groups was loaded", maxGroups+1)
	}
}

func TestLexiconRefusesUnknownKeys(t *testing.T) {
	if _, err := newLexicon("en", "negator: not\n"); err == nil || !strings.Contains(err.Error(), "negator") {
		t.Errorf("a lexicon with an unknown key: %v", err)
	}
}
