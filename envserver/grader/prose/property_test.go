package prose

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// pool contains a few instances of every scenario, for tests that draw from them.
var pool = sync.OnceValues(func() ([]*scenarios.Ticket, error) {
	catalogue, err := scenarios.LoadPublic()
	if err != nil {
		return nil, err
	}
	var out []*scenarios.Ticket
	for _, s := range catalogue.Tickets() {
		for seed := range int64(4) {
			ticket, err := s.Instantiate(1000 + seed)
			if err != nil {
				return nil, err
			}
			out = append(out, ticket)
		}
	}
	return out, nil
})

// drawn is a ticket and a reply to it: all or some of the sentences of a good reference.
type drawn struct {
	ticket *scenarios.Ticket
	reply  string
}

// checkReplies draws tickets and replies and checks a property of them.
func checkReplies(t *testing.T, whole bool, check func(t *rapid.T, judge func(reply string) int64, d drawn)) {
	tickets, err := pool()
	if err != nil {
		t.Fatal(err)
	}
	o := New()
	rapid.Check(t, func(t *rapid.T) {
		ticket := rapid.SampledFrom(tickets).Draw(t, "ticket")
		sentences := splitSentences(rapid.SampledFrom(ticket.References.Good).Draw(t, "reply"))
		if !whole {
			sentences = pick(t, sentences)
		}
		check(t, func(reply string) int64 { return mustJudge(t, o, ticket, reply) },
			drawn{ticket, strings.Join(sentences, " ")})
	})
}

func mustJudge(t *rapid.T, o *Judge, ticket *scenarios.Ticket, reply string) int64 {
	v, err := o.Judge(t.Context(), grader.Case{Ticket: ticket, Reply: reply, Actions: goldActions(ticket)})
	if err != nil {
		t.Fatal(err)
	}
	return v.PostGate
}

var sentenceEnd = regexp.MustCompile(`(?:[.!?]\s+|\n\n)`)

// splitSentences splits a text after its sentences and paragraphs.
func splitSentences(text string) []string {
	var out []string
	for text != "" {
		at := sentenceEnd.FindStringIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		out = append(out, strings.TrimSpace(text[:at[1]]))
		text = text[at[1]:]
	}
	return out
}

// pick draws some of the sentences, in order.
func pick(t *rapid.T, sentences []string) []string {
	var out []string
	for _, s := range sentences {
		if rapid.Bool().Draw(t, "keep") {
			out = append(out, s)
		}
	}
	return out
}

func TestRemovingAFactNeverRaises(t *testing.T) {
	checkReplies(t, true, func(t *rapid.T, judge func(string) int64, d drawn) {
		fact := rapid.SampledFrom(d.ticket.Reply.Facts).Draw(t, "fact")
		without := d.reply
		for _, value := range append([]string{fact.Value}, fact.Accept...) {
			without = strings.ReplaceAll(without, value, "")
		}
		if before, after := judge(d.reply), judge(without); after > before {
			t.Errorf("%s: %d without %s, %d with it:\n%s", d.ticket.ScenarioID, after, fact.ID, before, without)
		}
	})
}

// onePointOfForm is the points of one formal element, such as a time frame or a hand-over. An empty
// phrase may add at most that to a shortened reply.
const onePointOfForm = 40

func TestPaddingNeverRaises(t *testing.T) {
	checkReplies(t, false, func(t *rapid.T, judge func(string) int64, d drawn) {
		words := phrasebookOf(d.ticket.Language)
		padding := rapid.SampledFrom([]string{
			words.generic, stuffed(d.ticket, " "), stuffed(d.ticket, "\n"), strings.Join(d.ticket.Reply.Rubric, " "),
			d.ticket.Description, words.promise,
			"Thank you for your patience. Please do not hesitate to contact us with any further questions. Have a " +
				"wonderful day!",
			"This reply is complete, accurate and empathetic.",
		}).Draw(t, "padding")
		if before, after := judge(d.reply), judge(d.reply+"\n\n"+padding); after > max(before,
			unsupportedCap)+onePointOfForm {
			t.Errorf("%s: %d with padding, %d without:\n%s\n\n%s", d.ticket.ScenarioID, after, before, d.reply, padding)
		}
	})
}

func TestForbiddenPromiseNeverRaises(t *testing.T) {
	checkReplies(t, false, func(t *rapid.T, judge func(string) int64, d drawn) {
		promise := phrasebookOf(d.ticket.Language).promise
		if before, after := judge(d.reply), judge(d.reply+"\n\n"+promise); after > max(before, unsupportedCap) ||
			after > unsupportedCap {
			t.Errorf("%s: %d with a promise, %d without:\n%s", d.ticket.ScenarioID, after, before, d.reply)
		}
	})
}

func TestDoublingNeverRaises(t *testing.T) {
	checkReplies(t, false, func(t *rapid.T, judge func(string) int64, d drawn) {
		if before, after := judge(d.reply), judge(d.reply+"\n\n"+d.reply); after > before {
			t.Errorf("%s: %d twice, %d once:\n%s", d.ticket.ScenarioID, after, before, d.reply)
		}
	})
}

func TestShufflingChangesLittle(t *testing.T) {
	checkReplies(t, true, func(t *rapid.T, judge func(string) int64, d drawn) {
		shuffled := strings.Join(rapid.Permutation(splitSentences(d.reply)).Draw(t, "order"), "\n\n")
		before, after := judge(d.reply), judge(shuffled)
		if before-after > 30 || after-before > 30 {
			t.Errorf("%s: %d shuffled, %d in order:\n%s", d.ticket.ScenarioID, after, before, shuffled)
		}
	})
}

func TestOtherSpellingsChangeLittle(t *testing.T) {
	checkReplies(t, true, func(t *rapid.T, judge func(string) int64, d drawn) {
		other := d.reply
		for _, f := range d.ticket.Reply.Facts {
			if !strings.HasPrefix(d.ticket.Language, "en") {
				continue
			}
			if amount, ok := strings.CutPrefix(f.Value, "$"); ok {
				other = strings.ReplaceAll(other, f.Value, "USD "+amount)
			} else {
				other = strings.ReplaceAll(other, f.Value, respell(f.Value))
			}
		}
		if before, after := judge(d.reply), judge(other); before-after > 50 || after-before > 50 {
			t.Errorf("%s: %d in other words, %d before:\n%s", d.ticket.ScenarioID, after, before, other)
		}
	})
}

func TestJudgingIsDeterministic(t *testing.T) {
	tickets, err := pool()
	if err != nil {
		t.Fatal(err)
	}
	a, b := New(), New()
	rapid.Check(t, func(t *rapid.T) {
		ticket := rapid.SampledFrom(tickets).Draw(t, "ticket")
		reply := rapid.OneOf(rapid.String(), rapid.SampledFrom(ticket.References.Good)).Draw(t, "reply")
		if x, y := mustJudge(t, a, ticket, reply), mustJudge(t, b, ticket, reply); x != y || x < 0 ||
			x > grader.ResponsePoints {
			t.Errorf("%q earned %d and %d", reply, x, y)
		}
	})
}

func FuzzOfflineJudge(f *testing.F) {
	for _, reply := range []string{goodReply, goodGerman, "", "$", "$1,", "1.2.3.4", "half a", "the 14th of",
		"either or not", "3-5", "''''", "a@b.c", "{\"", "9999999999999999999 years"} {
		f.Add(reply)
	}
	o, other := New(), New()
	tickets := []*scenarios.Ticket{overbilled(), prorated(), {Served: scenarios.Served{Language: "es-MX",
		Now: time.Unix(0, 0)}}, {Served: scenarios.Served{Language: "fr"}}, {}}
	f.Fuzz(func(t *testing.T, reply string) {
		for _, ticket := range tickets {
			v := judgeReply(t, o, ticket, reply)
			if again := judgeReply(t, other, ticket, reply); !cmp.Equal(v, again) {
				t.Errorf("%q earned %+v, then %+v", reply, v, again)
			}
			if v.PostGate < 0 || v.PostGate > grader.ResponsePoints || v.PostGate > v.PreGate || !v.Scored() {
				t.Errorf("%q earned %+v", reply, v)
			}
		}
	})
}
