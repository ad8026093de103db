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
	}
}

func TestLexiconRefusesUnknownKeys(t *testing.T) {
	if _, err := newLexicon("en", "negator: not\n"); err == nil || !strings.Contains(err.Error(), "negator") {
		t.Errorf("a lexicon with an unknown key: %v", err)
	}
}
