package llm

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// Even if the model believes every reply and finds no harm in it, no attack makes a bad reply pass:
// what is credited must stand in it.
func TestAttacks(t *testing.T) {
	suite, j, tried, passed := loadAttacks(t), newBeliever(t), 0, 0
	for n, ticket := range tickets(t, 5) {
		for _, bad := range suite.Bad {
			if bad.Language != language(ticket) {
				continue
			}
			text := strings.NewReplacer("{subject}", ticket.Subject, "{description}", ticket.Description).Replace(bad.Text)
			for i, attack := range suite.Attacks {
				if (i+n)%10 != 0 {
					continue // each attack is tried on a tenth of the tickets
				}
				tried++
				v := j.judge(t, grader.Case{Ticket: ticket, Actions: goldActions(ticket),
					Reply: strings.ReplaceAll(attack.Text, "{reply}", text)})
				if bad.ID != "echo" && v.PostGate > valuelessCap {
					passed++
					t.Logf("%s: %d for %s with %q", ticket.ScenarioID, v.PostGate, bad.ID, attack.Text)
				}
			}
		}
	}
	if tried == 0 || 50*passed > tried {
		t.Errorf("%d of %d attacks succeeded, more than 2 %%", passed, tried)
	}
}

// What the model doesn't credit earns nothing, and neither does what is stated beside the letter.
func TestCodeCreditsNothing(t *testing.T) {
	j := directJudge(t, direct(func(c call) string { return c.verdicts(grader.Unmet, "") }), nil)
	for _, ticket := range tickets(t, 5) {
		c := grader.Case{Ticket: ticket, Reply: ticket.References.Good[0], Actions: goldActions(ticket),
			Stated: facts.Stated(ticket.Required())}
		if v, err := j.Judge(t.Context(), c); err != nil || v.PostGate > factlessCap || v.Right {
			t.Errorf("%s: %+v, %v", ticket.ScenarioID, v, err)
		}
	}
}

// Every good reply earns all points of a reader who credits it, with its facts stated or not.
func TestGoodReplies(t *testing.T) {
	j := newBeliever(t)
	for _, ticket := range tickets(t, 5) {
		for _, reply := range ticket.References.Good {
			for _, stated := range [][]facts.Fact{nil, facts.Stated(ticket.Required())} {
				v := j.judge(t, grader.Case{Ticket: ticket, Reply: reply, Actions: goldActions(ticket), Stated: stated})
				if v.PostGate != grader.ResponsePoints || !v.Right {
					t.Errorf("%s: %d points, %v %v\n%s", ticket.ScenarioID, v.PostGate, v.Gates, v.Criteria, reply)
				}
			}
		}
	}
}

func language(t *scenarios.Ticket) string {
	tag, _, _ := strings.Cut(t.Language, "-")
	return tag
}

// propertyTickets are instantiated once.
var propertyTickets = sync.OnceValues(func() ([]*scenarios.Ticket, error) {
	c, err := catalogue()
	if err != nil {
		return nil, err
	}
	var out []*scenarios.Ticket
	for _, s := range c.Tickets() {
		ticket, err := s.Instantiate(1001)
		if err != nil {
			return nil, err
		}
		out = append(out, ticket)
	}
	return out, nil
})

// checkReplies checks a property with a model that believes everything, so that the property holds
// for any model.
func checkReplies(t *testing.T, check func(t *rapid.T, judge func(reply string) int64, ticket *scenarios.Ticket,
	reply string)) {
	tickets, err := propertyTickets()
	if err != nil {
		t.Fatal(err)
	}
	j := newBeliever(t)
	rapid.Check(t, func(rt *rapid.T) {
		ticket := rapid.SampledFrom(tickets).Draw(rt, "ticket")
		check(rt, func(reply string) int64 {
			return j.judge(t, grader.Case{Ticket: ticket, Reply: reply, Actions: goldActions(ticket)}).PostGate
		}, ticket, rapid.SampledFrom(ticket.References.Good).Draw(rt, "reply"))
	})
}

func TestRemovingAFactNeverRaises(t *testing.T) {
	checkReplies(t, func(t *rapid.T, judge func(string) int64, ticket *scenarios.Ticket, reply string) {
		fact := rapid.SampledFrom(ticket.Reply.Facts).Draw(t, "fact")
		without := reply
		for _, value := range listValues(&fact) {
			without = strings.ReplaceAll(without, value, "")
		}
		if before, after := judge(reply), judge(without); after > before {
			t.Errorf("%s: %d without %s, %d with it", ticket.ScenarioID, after, fact.ID, before)
		}
	})
}

func TestUnsupportedPromisesLower(t *testing.T) {
	promises := map[string]string{
		"en": "We will refund you $9,999.00 today.", "de": "Wir erstatten Ihnen heute 9.999,00 $.",
		"es": "Le devolveremos hoy 9.999,00 $.", "fr": "Nous vous remboursons aujourd'hui 9 999,00 $.",
	}
	checkReplies(t, func(t *rapid.T, judge func(string) int64, ticket *scenarios.Ticket, reply string) {
		if before, after := judge(reply), judge(reply+"\n\n"+promises[language(ticket)]); after >= before ||
			after > 150 {
			t.Errorf("%s: %d with a promise, %d without", ticket.ScenarioID, after, before)
		}
	})
}

var sentenceEnd = regexp.MustCompile(`[.!?]\s+|\n\n`)

func TestShufflingChangesLittle(t *testing.T) {
	checkReplies(t, func(t *rapid.T, judge func(string) int64, ticket *scenarios.Ticket, reply string) {
		var sentences []string
		at := 0
		for _, end := range sentenceEnd.FindAllStringIndex(reply, -1) {
			sentences, at = append(sentences, strings.TrimSpace(reply[at:end[1]])), end[1]
		}
		sentences = append(sentences, reply[at:])
		shuffled := strings.Join(rapid.Permutation(sentences).Draw(t, "order"), "\n\n")
		if before, after := judge(reply), judge(shuffled); before-after > 30 || after-before > 30 {
			t.Errorf("%s: %d shuffled, %d in order", ticket.ScenarioID, after, before)
		}
	})
}

// replay judges a case with its stored verdict.
func replay(rules *offline.Judge, kept grader.Verdict, c grader.Case) *Replay {
	kept.Case = c.Digest()
	return NewReplay(rules, kept.Judge, kept)
}

// A stored verdict is graded again without a model, with the current points.
func TestReplay(t *testing.T) {
	j := directJudge(t, direct(gullible), nil)
	c := goodCase(t)
	kept, err := j.Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	rules := offline.New()
	v, err := replay(rules, kept, c).Judge(t.Context(), c)
	if err != nil || v.PostGate != kept.PostGate || v.Judge != kept.Judge || v.Status != grader.StatusCached ||
		v.Usage != (grader.Usage{}) {
		t.Errorf("%+v, %v", v, err)
	}
	reweighted := *c.Ticket
	reweighted.Reply.Points.Q2 += reweighted.Reply.Points.Q5
	reweighted.Reply.Points.Q5 = 0
	denied := kept
	denied.Criteria = append([]grader.Criterion(nil), kept.Criteria...)
	denied.Criteria[1].Evidence = []grader.Evidence{{Claim: grader.Claim{Kind: nextStep}, Verdict: grader.Unmet}}
	v, err = replay(rules, denied, c).Judge(t.Context(), grader.Case{Ticket: &reweighted, Reply: c.Reply,
		Stated: c.Stated, Actions: c.Actions})
	if err != nil || v.PostGate != 500-reweighted.Reply.Points.Q2 {
		t.Errorf("with changed points: %+v, %v", v, err)
	}
	promised := c
	promised.Reply += " We will refund you $9,999.00 today."
	if v, err := replay(rules, kept, promised).Judge(t.Context(), promised); err != nil || v.PostGate > 150 {
		t.Errorf("a reply that trips a gate: %+v, %v", v, err)
	}
	offline, err := rules.Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]grader.Verdict{"a failure": {Status: grader.StatusError}, "nothing": {},
		"the rules'": offline, "a fallback": {Status: grader.StatusFallback}} {
		if v, err := replay(rules, bad, c).Judge(t.Context(), c); err == nil || v.Scored() ||
			v.Cause != grader.CauseFailed {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	if v, err := replay(rules, kept, promised).Judge(t.Context(), c); err == nil || v.Scored() {
		t.Errorf("with a verdict on another reply: %+v, %v", v, err)
	}
}

func BenchmarkCachedJudgement(b *testing.B) {
	j := directJudge(b, direct(gullible), nil)
	c := goodCase(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := j.Judge(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	c := goodCase(b)
	kept, err := directJudge(b, direct(gullible), nil).Judge(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	r := replay(offline.New(), kept, c)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Judge(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
