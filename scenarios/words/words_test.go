package words

import "testing"

func TestContainsFold(t *testing.T) {
	tests := map[string]struct {
		text, word string
		want       bool
	}{
		"alone":           {"$12.50", "$12.50", true},
		"in a sentence":   {"It was $12.50, I think.", "$12.50", true},
		"other case":      {"the Finance Team", "finance team", true},
		"part of a word":  {"refinanced", "finance", false},
		"part, then word": {"refinance, finance", "finance", true},
		"longer number":   {"112 seats", "12", false},
		"accents":         {"à côté", "côt", false},
		"empty":           {"text", "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ContainsFold(tt.text, tt.word); got != tt.want {
				t.Errorf("ContainsFold(%q, %q) = %t, want %t", tt.text, tt.word, got, tt.want)
			}
		})
	}
}
