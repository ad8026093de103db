package transcript

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFindMarks finds words in messages, whole, in their order and in whatever form.
func TestFindMarks(t *testing.T) {
	for _, tt := range []struct{ text, words, want string }{
		{"You get $40.00 back.", "$40.00", "$40.00"},
		{"You get $140.00 back.", "40.00", ""},
		{"You get $40.005 back.", "40.00", ""},
		{"You get 40.00.5 back.", "40.00", ""},
		{"You get $40.00. Bye.", "$40.00", "$40.00"},
		{"REFUND   of\nyours", "refund of yours", "REFUND   of\nyours"},
		{"a refunded sum, a refund", "refund", "refund"},
		{"we’ll write “soon”", `we'll write "soon"`, "we’ll write “soon”"},
		{"Wir zahlen Ihnen für die Öse", "für die öse", "für die Öse"},
		{"für", "fü", ""},
		{"我们会退款给您", "退款", "退款"},
		{"nothing", "", ""},
		{"nothing", " \n", ""},
		{"Order LD-1234567", "LD-123456", ""},
	} {
		got := ""
		if from, to := findWords(tt.text, tt.words); from >= 0 {
			got = tt.text[from:to]
		}
		if got != tt.want {
			t.Errorf("%q in %q is %q, want %q", tt.words, tt.text, got, tt.want)
		}
	}
}

// TestMarkedSentences widens what was found to its sentence.
func TestMarkedSentences(t *testing.T) {
	for _, tt := range []struct{ text, words, want string }{
		{"Hello. You get $40.00 back. Bye!", "$40.00", "You get $40.00 back."},
		{"You get $40.00 back", "$40.00", "You get $40.00 back"},
		{"Hello!\nYou get $40.00\nBye.", "$40.00", "You get $40.00"},
		{"First. Second is v2.5 now? Third.", "v2.5", "Second is v2.5 now?"},
		{"One. Two. Three.", "One. Two.", "One. Two."},
		{"您好。我们会退款。再见。", "退款", "我们会退款。"},
		{"Ça va. Voilà 5 € là. Fin.", "5 €", "Voilà 5 € là."},
	} {
		from, to := findWords(tt.text, tt.words)
		if from < 0 {
			t.Fatalf("%q isn't in %q", tt.words, tt.text)
		}
		if start, end := widenToSentence(tt.text, from, to); tt.text[start:end] != tt.want {
			t.Errorf("the sentence of %q is %q, want %q", tt.words, tt.text[start:end], tt.want)
		}
	}
}

// TestPiecesAreTheMessage marks parts of a message at random, and wants that its pieces are the
// whole message, that marks don't overlap, and that each part is in one mark.
func TestPiecesAreTheMessage(t *testing.T) {
	word := rapid.SampledFrom([]string{"refund", "Geld", "für", "5", "$4.50", "退款", "。", ".", "!", "\n", "“ja”",
		"e.g."})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(word, 1, 25).Draw(t, "text"), " ")
		s := Step{Number: 3}
		var marked []string
		for _, words := range rapid.SliceOfN(rapid.SliceOfN(word, 1, 3), 0, 5).Draw(t, "marks") {
			part := strings.Join(words, " ")
			from, to := findWords(text, part)
			if from < 0 {
				continue
			}
			found, _ := foldText(text[from:to])
			if wanted, _ := foldText(part); strings.TrimSpace(found) != strings.TrimSpace(wanted) {
				t.Errorf("%q is found as %q", part, text[from:to])
			}
			m := s.markSentence(text, from, to, part, false)
			if from >= m.to || to <= m.from || !slices.Contains(m.Criteria, part) {
				t.Errorf("%q isn't in its mark %q", part, m.Text)
			}
			marked = append(marked, part)
		}
		all := Transcript{Steps: []Step{s}}
		all.number()
		whole, at, shown := "", 0, 0
		for _, p := range SplitAtMarks(text, all.Steps[0].Marks) {
			if whole += p.Text; p.Text == "" {
				t.Error("a piece is empty")
			}
			if p.Mark != nil {
				shown += len(p.Mark.Criteria)
				if p.Mark.from < at {
					t.Errorf("the marks overlap in %q", text)
				}
				at = p.Mark.to
			}
		}
		slices.Sort(marked)
		if distinct := len(slices.Compact(marked)); whole != text || shown != distinct {
			t.Errorf("the pieces of %q are %q with %d criteria, want %d", text, whole, shown, distinct)
		}
	})
}

// TestMarksAreOfTheTicket wants the sentence of the last message about the ticket of a review, and
// that points that are lost show as harm.
func TestMarksAreOfTheTicket(t *testing.T) {
	first, second, third := Step{Number: 1}, Step{Number: 2}, Step{Number: 3}
	all := []message{{&third, "T-2", "You get $40.00 soon."}, {&second, "T-1", "You get $40.00. Bye."},
		{&first, "T-1", "You get $40.00!"}}
	own := slices.DeleteFunc(slices.Clone(all), func(m message) bool { return m.ticketID != "T-1" })
	m := markText(own, "amount", false, "$40.00")
	if m == nil || m.Step != 2 || m.Text != "You get $40.00." || m.Harm {
		t.Fatalf("the mark is %+v", m)
	}
	if again := markText(own, "invented", true, "You get"); again != m || !m.Harm || m.Title() != "amount; invented" {
		t.Errorf("the second mark is %+v", again)
	}
	if markText(own, "amount", false, "$41.00") != nil || len(second.Marks) != 1 ||
		len(first.Marks)+len(third.Marks) != 0 {
		t.Errorf("the marks are %v, %v and %v", first.Marks, second.Marks, third.Marks)
	}
}
