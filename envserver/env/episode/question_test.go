package episode

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAsks(t *testing.T) {
	order, words := []string{"order", "bought"}, []string{"please", "let me know", "bitte"}
	tests := map[string]struct {
		message string
		about   []string
		want    bool
	}{
		"question": {message: "Which order is it?", about: order, want: true},
		"request":  {message: "Please send me the number of your order.", about: order, want: true},
		"let me know": {message: "Hello!\nLet me know what you bought and I will look.", about: order,
			want: true},
		"elided":                         {message: "L’order, c’est laquelle ?", about: order, want: true},
		"request of another language":    {message: "Nennen Sie mir bitte die Order.", about: order, want: true},
		"question with an inverted mark": {message: "¿Order number, please?", about: order, want: true},
		"word in quotation marks":        {message: "Which «order» is it?", about: order, want: true},
		"question of something else":     {message: "How are you today? Your order is fine.", about: order, want: false},
		"statement":                      {message: "I have looked up your order.", about: order, want: false},
		"any question":                   {message: "How are you?", about: nil, want: true},
		"any question, and no request":   {message: "Please be patient.", about: nil, want: false},
		"part of a word":                 {message: "Do you live near the border?", about: order, want: false},
		"ending":                         {message: "Which of your orders?", about: order, want: true},
		"nothing":                        {message: "", about: nil, want: false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := HasQuestionAbout(tc.message, tc.about, words); got != tc.want {
				t.Errorf("asks(%q, %q) = %t, want %t", tc.message, tc.about, got, tc.want)
			}
		})
	}
}

// Sentences and the beginnings of words are those of these expressions.
func TestSentencesAndWords(t *testing.T) {
	sentence := regexp.MustCompile(`[^.!?\n]+[.!?]?`)
	texts := rapid.StringOfN(rapid.SampledFrom([]rune("abé .!?\n-’")), 0, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		text, word := texts.Draw(t, "text"), rapid.StringOfN(rapid.SampledFrom([]rune("abé -")), 0, 3, -1).Draw(t, "word")
		if got, want := slices.Collect(sentences(text)), sentence.FindAllString(text, -1); !slices.Equal(got, want) {
			t.Fatalf("%q has the sentences %q, want %q", text, got, want)
		}
		spaced := " " + strings.Map(letterOrSpace, text)
		if got, want := holdsWord(text, []string{word}), strings.Contains(spaced, " "+strings.Map(letterOrSpace, word)); got != want {
			t.Fatalf("%q holds %q: %v", text, word, got)
		}
	})
}

func BenchmarkHasQuestionAbout(b *testing.B) {
	message := strings.Repeat("Your second payment goes back to your card within five business days. ", 8) + "Which order is it?"
	about := []string{"order", "invoice number", "last four digits"}
	b.ReportAllocs()
	for b.Loop() {
		if !HasQuestionAbout(message, about, []string{"please", "tell me", "let me know", "bitte"}) {
			b.Fatal("no question")
		}
	}
}
