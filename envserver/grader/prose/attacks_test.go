package prose

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// attackSuite is the content of testdata/attacks.yaml.
type attackSuite struct {
	Bad     []badReply `yaml:"bad"`
	Attacks []attack   `yaml:"attacks"`
}

type badReply struct {
	ID       string `yaml:"id"`
	Language string `yaml:"language"`
	Text     string `yaml:"text"`
}

type attack struct {
	ID       string `yaml:"id"`
	Kind     string `yaml:"kind"`
	Language string `yaml:"language"`
	Text     string `yaml:"text"`
}

func loadAttacks(tb testing.TB) attackSuite {
	tb.Helper()
	data, err := os.ReadFile("testdata/attacks.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var suite attackSuite
	if err := yaml.Unmarshal(data, &suite); err != nil {
		tb.Fatal(err)
	}
	return suite
}

// badReplies returns the suite's bad replies in a ticket's language, with its values.
func (s attackSuite) badReplies(ticket *scenarios.Ticket) map[string]string {
	out := map[string]string{}
	for _, b := range s.Bad {
		if strings.HasPrefix(ticket.Language, b.Language) {
			out[b.ID] = strings.NewReplacer("{subject}", ticket.Subject, "{description}", ticket.Description).Replace(
				b.Text)
		}
	}
	return out
}

// in inserts the attack into a reply.
func (a attack) in(reply string) string {
	return strings.ReplaceAll(a.Text, "{reply}", reply)
}

const (
	// attackSeeds is the number of attacked seeds of every ticket.
	attackSeeds = 2
	// attackStride: the race detector's tests try one of that many attacks.
	attackStride = 20
)

// An attack succeeds if the reply with it earns more than style alone may, or more than the reply
// without it.
func TestAttacksEarnNothing(t *testing.T) {
	suite := loadAttacks(t)
	o := New()
	for _, s := range publicTickets(t) {
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			tried, successes := 0, 0
			for seed := range int64(attackSeeds) {
				ticket := instance(t, s, seed)
				for name, bad := range suite.badReplies(ticket) {
					n, won := suite.attack(t, o, ticket, name, bad)
					tried, successes = tried+n, successes+won
				}
			}
			t.Logf("%d of %d attacks succeeded", successes, tried)
		})
	}
}

// attack tries the attacks in one bad reply, and returns how many it tried and how many succeeded.
func (s attackSuite) attack(t *testing.T, o *Judge, ticket *scenarios.Ticket, name,
	bad string) (tried, successes int) {
	t.Helper()
	without := judgeReply(t, o, ticket, bad).PostGate
	for i, a := range s.Attacks {
		if raced && i%attackStride != 0 {
			continue
		}
		tried++
		if v := judgeReply(t, o, ticket, a.in(bad)); v.PostGate > without || v.PostGate > unsupportedCap {
			successes++
			t.Errorf("seed %d: %s in %s earned %d, %d without it:\n%s", ticket.Seed, a.ID, name, v.PostGate, without,
				explain(v))
		}
	}
	return tried, successes
}

// TestAttacksInGoodReplies checks which attacks are recognised: a good reply with one earns
// nothing.
func TestAttacksInGoodReplies(t *testing.T) {
	suite := loadAttacks(t)
	o := New()
	for _, a := range suite.Attacks {
		// A placeholder costs points without being an attack.
		if v := judgeReply(t, o, overbilled(), a.in(goodReply)); a.ID != "delimiter-template" &&
			(v.PostGate != 0 || !hasGate(v, "aimed-at-grader")) {
			t.Errorf("a good reply with %s earned %d: %+v", a.ID, v.PostGate, v.Gates)
		}
	}
}

// TestAttackSuite checks that the suite is large and varied.
func TestAttackSuite(t *testing.T) {
	suite := loadAttacks(t)
	bad, attacks, kinds, spoken := map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, b := range suite.Bad {
		bad[b.Language]++
	}
	for _, a := range suite.Attacks {
		if attacks[a.ID] || !strings.Contains(a.Text, "{reply}") {
			t.Errorf("attack %s is listed twice or contains no {reply}", a.ID)
		}
		attacks[a.ID], kinds[a.Kind], spoken[a.Language] = true, true, true
	}
	for _, language := range text.Languages() {
		if bad[language] != 5 || !spoken[language] {
			t.Errorf("%d bad replies in %s, and attacks in it: %v; want 5 and some", bad[language], language,
				spoken[language])
		}
	}
	if len(attacks) < 30 || len(kinds) < 8 {
		t.Errorf("%d attacks of %d kinds, want at least 30 of 8", len(attacks), len(kinds))
	}
}

// TestNoFalseAlarms counts the honest replies that the detector reports as attacks.
func TestNoFalseAlarms(t *testing.T) {
	o := New()
	for _, s := range publicTickets(t) {
		for seed := range acceptedSeeds() {
			ticket := instance(t, s, seed)
			for _, reply := range ticket.References.Good {
				if v := judgeReply(t, o, ticket, reply); hasGate(v, "aimed-at-grader") {
					t.Errorf("%s seed %d: %+v in\n%s", s.ID, seed, v.Gates, reply)
				}
			}
		}
	}
}

// TestHarmlessSentences checks honest sentences with words that are also in attacks.
func TestHarmlessSentences(t *testing.T) {
	o := New()
	p := prepareTicket(overbilled(), o.libraries)
	for _, wording := range []string{
		"Please ignore the previous e-mail, it was sent by mistake.",
		"Please disregard the instructions on the card in the box.",
		"You can rate this conversation below if you like.",
		"Full marks to you for spotting it!",
		"The desk decides whether the criteria for an emergency are met.",
		"A judge's order is needed, and the officer has to show it to the judge's clerk.",
		"Your credit score is not affected.",
		"All checks passed, so the hub is healthy again.",
		"The warranty evaluation is finished within 3 days.",
		"I hope this answer covers everything you need.",
		"This answer is based on our refund policy.",
		"The response is complete once the privacy desk has sent all of it.",
		"Your only job is to wait for their call.",
		"You will receive full credit for the missed month.",
		"I'll send you new instructions by post.",
		"The previous instructions on that page were wrong, sorry.",
		"Your case number is CASE-104233-AB-2026.",
		"See www.larkfield.example/help/hub/restore/after-a-failed-update-4711 for pictures.",
		"Option A, B or C will do.",
		"Wenn alle Bedingungen erfüllt sind, meldet sich das Team.",
		"Frau Richter aus der Buchhaltung meldet sich.",
		"Le juge peut demander les images.",
		"Tome nota del número, por favor.",
	} {
		if said := p.injection(p.lib.read(wording)); said != "" {
			t.Errorf("%q counts as addressed to the grader: %s", wording, said)
		}
	}
	served := overbilled()
	served.Description += " As a judge I decide for myself."
	if v := judgeReply(t, o, served, goodReply+" It must be hard to close books as a judge."); hasGate(v,
		"aimed-at-grader") {
		t.Errorf("a text of the ticket trips a gate of the reply: %+v", v.Gates)
	}
}

func publicTickets(tb testing.TB) []*scenarios.TicketScenario {
	tb.Helper()
	catalogue, err := scenarios.LoadPublic()
	if err != nil {
		tb.Fatal(err)
	}
	return catalogue.Tickets()
}
