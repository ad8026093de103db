package scenarios

import (
	"strings"
	"testing"
)

func TestReadKeywords(t *testing.T) {
	tests := map[string]struct {
		language, subject, description string
		want                           string
	}{
		"nothing":                   {"en", "Hello", "Good morning", "general"},
		"a word":                    {"en", "Hello", "My parcel.", "shipping"},
		"the subject counts twice":  {"en", "Parcel", "My camera.", "shipping"},
		"more words":                {"en", "Parcel", "My camera, my hub and the sensor.", "technical"},
		"a tie":                     {"en", "Hello", "My parcel, my invoice.", "billing"},
		"inflected":                 {"en", "", "They delivered it.", "shipping"},
		"a short word is no prefix": {"en", "", "An apple, a parcel.", "shipping"},
		"a short word's plural":     {"en", "", "The hubs.", "technical"},
		"German":                    {"de", "Ihre Rechnung", "", "billing"},
		"Spanish":                   {"es", "", "¿Dónde está mi paquete?", "shipping"},
		"French, with accents":      {"fr", "", "Mon colis et ma caméra, la caméra !", "technical"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ReadKeywords(&Ticket{Served: Served{Language: tt.language, Subject: tt.subject,
				Description: tt.description}}); got != tt.want {
				t.Errorf("ReadKeywords = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestLexiconsAreDisjoint(t *testing.T) {
	for language, words := range lexicons() {
		seen := map[string]string{}
		for _, c := range Categories {
			if len(words[c]) == 0 {
				t.Errorf("%s has no words for %s", language, c)
			}
			for _, w := range words[c] {
				if other, ok := seen[w]; ok || w != strings.ToLower(w) {
					t.Errorf("%s: %q of %s is also in %q, or not in lower case", language, w, c, other)
				}
				seen[w] = c
			}
		}
	}
}

// At every seed, an agent that does everything right earns all of the rules' part and at least 450
// of the reply's 500. An agent that does nothing earns nothing.
