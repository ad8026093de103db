package text

import (
	"slices"
	"strings"
	"testing"
)

func TestLexiconsHaveTheSameKeys(t *testing.T) {
	known := append([]string{"identify", "expand", "numbers", "fractions", "halves", "months", "seconds", "months_of",
		"weekdays"}, meanings...)
	for key := range wordKeys {
		known = append(known, key)
	}
	for key := range linesOf("en") {
		if slices.ContainsFunc(cueKeys, func(start string) bool { return strings.HasPrefix(key, start) }) {
			known = append(known, key)
		}
	}
	for _, language := range Languages() {
		got := linesOf(language)
		for key := range got {
			if !slices.Contains(known, key) {
				t.Errorf("%s has the key %q, which isn't read", language, key)
			}
		}
		for _, key := range known {
			if got[key] == nil && key != "expand" {
				t.Errorf("%s lacks the key %q", language, key)
			}
		}
	}
}
