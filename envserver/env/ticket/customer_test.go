package ticket

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
)

// talkative returns testTicket with a customer who answers.
func talkative() *scenarios.Ticket {
	t := testTicket()
	t.Tone = "worried"
	t.Reply.Facts = []scenarios.Fact{{ID: "f1", What: "refund_amount", Stated: "$300.00"}}
	t.UserSim = &scenarios.UserSim{
		Persona: "terse", MaxTurns: 4,
		Answers: []scenarios.SimAnswer{
			{ID: "invoice", Ask: []string{"invoice number", "which invoice"}, Text: "It is INV-104233.", Known: true},
			{ID: "seats", Ask: []string{"how many seats"}, Text: "30, as I wrote.", Known: true, Told: true},
			{ID: "price", Ask: []string{"price per seat"}, Text: "I don't have that here."},
		},
		Lines: map[string][]string{
			"calm": {"Thank you.", "All right."}, "uneasy": {"I hope so.", "Well."}, "annoyed": {"Hm.", "Really."},
			"angry": {"And when will you DO something?", "I am waiting."},
		},
		StopWhen: []string{"outcome_stated"},
	}
	return t
}

// talk sends messages and returns the customer's message and mood after each.
func talk(t testing.TB, opts episode.Options, ticket *scenarios.Ticket, messages ...string) (said, moods []string) {
	t.Helper()
	e := startOn("ticket-resolve", opts, goodJudge, ticket)
	for _, m := range messages {
		action := say(respond, m)
		if amount := regexp.MustCompile(`\$\d+`).FindString(m); amount != "" { // it is stated as a fact too
			action = strings.TrimSuffix(action, "}") + `,"facts":[{"what":"refund_amount","value":"` + amount + `"}]}`
		}
		o := step(t, e, action).Observation.(Observation)
		last := o.ConversationHistory[len(o.ConversationHistory)-1]
		answer := ""
		if last.Role == "customer" {
			answer = last.Content
		}
		if (o.Status == "pending_customer") != (answer == "") {
			t.Errorf("status %s after the answer %q", o.Status, answer)
		}
		said, moods = append(said, answer), append(moods, o.CustomerMood)
	}
	return said, moods
}

func TestCustomerAnswers(t *testing.T) {
	const settles, wrong = "We will refund $300.00 to you.", "The refund is $200.00."
	tests := map[string]struct {
		messages    []string
		said, moods []string
	}{
		"a question": {messages: []string{"Which invoice is it?"}, said: []string{"It is INV-104233."},
			moods: []string{"uneasy"}},
		"a request": {messages: []string{"Please send us the invoice number."}, said: []string{"It is INV-104233."},
			moods: []string{"uneasy"}},
		"an imperative": {messages: []string{"Tell us the invoice number."}, said: []string{"It is INV-104233."},
			moods: []string{"uneasy"}},
		"no question": {messages: []string{"We look for the invoice number now."}, said: []string{"I hope so."},
			moods: []string{"uneasy"}},
		"unknown to him": {messages: []string{"What is the price per seat?"}, said: []string{"I don't have that here."},
			moods: []string{"uneasy"}},
		"two at once": {messages: []string{"Which invoice is it, and what is the price per seat?"},
			said: []string{"It is INV-104233. I don't have that here."}, moods: []string{"uneasy"}},
		"told already": {messages: []string{"How many seats do you have?"}, said: []string{"30, as I wrote."},
			moods: []string{"annoyed"}},
		"asked twice": {messages: []string{"Which invoice is it?", "Which invoice is it?"},
			said: []string{"It is INV-104233.", "It is INV-104233."}, moods: []string{"uneasy", "annoyed"}},
		"told something, once": {messages: []string{wrong, wrong}, said: []string{"Thank you.", "All right."},
			moods: []string{"calm", "calm"}},
		"lines in turn": {messages: []string{"Hm.", "Hm.", "Hm.", "Hm."}, said: []string{"I hope so.", "Well.", "Well.",
			"Well."}, moods: []string{"uneasy", "uneasy", "uneasy", "uneasy"}},
		"at most four messages": {messages: []string{"Hm.", "Hm.", "Hm.", "Hm.", "Which invoice is it?"},
			said: []string{"I hope so.", "Well.", "Well.", "Well.", ""}, moods: slices.Repeat([]string{"uneasy"}, 5)},
		"nothing to add": {messages: []string{settles, "Hm.", "Which invoice is it?"},
			said: []string{"All right.", "", ""}, moods: []string{"calm", "calm", "calm"}},
		"a question at the end": {messages: []string{settles + " Which invoice is it?"},
			said:  []string{"It is INV-104233."},
			moods: []string{"calm"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ticket := talkative()
			said, moods := talk(t, episode.Options{Seed: 7, RewardMode: episode.Dense}, ticket, tc.messages...)
			if diff := cmp.Diff([][]string{tc.said, tc.moods}, [][]string{said, moods}); diff != "" {
				t.Errorf("said and felt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFirstMoodFollowsTheTone(t *testing.T) {
	for tone, want := range map[string]string{"angry": "angry", "worried": "uneasy", "calm": "calm",
		"neutral": "calm"} {
		ticket := talkative()
		ticket.Tone = tone
		e := startOn("ticket-resolve", episode.Options{Seed: 7}, goodJudge, ticket)
		if got := e.state.observation().CustomerMood; got != want {
			t.Errorf("a customer who writes in an %s tone is %s, want %s", tone, got, want)
		}
	}
	if got := start("ticket-resolve", episode.Dense, goodJudge).state.observation().CustomerMood; got != "" {
		t.Errorf("a customer without a script is %s", got)
	}
}

// TestWaitingAnnoys sends the first reply after the customer's patience, at every priority.
func TestWaitingAnnoys(t *testing.T) {
	for _, priority := range []string{"low", "urgent"} {
		ticket := talkative()
		ticket.Gold.Priority = priority
		e := startOn("ticket-resolve", episode.Options{Seed: 7, RewardMode: episode.Terminal, Pressure: true},
			goodJudge, ticket)
		play(t, e, slices.Repeat([]string{classifyWrong}, 8)...)
		if o := step(t, e, say(respond, "Hm.")).Observation.(Observation); *o.ClockMinutes != 21 ||
			o.CustomerMood != "annoyed" {
			t.Errorf("%s: a first reply in minute %d leaves the customer %s, want 21 and annoyed", priority,
				*o.ClockMinutes, o.CustomerMood)
		}
	}
}

// TestCustomersDoNotRevealGold sends random messages to customers whose tickets differ only in
// gold. Their messages are the same, except for the silence after the matter is settled.
func TestCustomersDoNotRevealGold(t *testing.T) {
	other := talkative()
	other.Gold = scenarios.TicketGold{Category: "shipping", Priority: "low"}
	messages := []string{"Which invoice is it?", "How many seats?", "This is your own fault.",
		"I understand that this is worrying.", "Hm.", "We have passed this on to finance.",
		"Please send the price per seat."}
	rapid.Check(t, func(rt *rapid.T) {
		sent := rapid.SliceOfN(rapid.SampledFrom(messages), 1, 6).Draw(rt, "messages")
		said, moods := talk(t, episode.Options{Seed: 7}, talkative(), sent...)
		again, felt := talk(t, episode.Options{Seed: 7}, other, sent...)
		if diff := cmp.Diff([][]string{said, moods}, [][]string{again, felt}); diff != "" {
			rt.Errorf("the customer reveals gold (-one +other):\n%s", diff)
		}
	})
}

// TestSilenceRevealsNothingWithTerminalRewards sends random messages to customers whose tickets
// differ only in the outcome that settles them.
func TestSilenceRevealsNothingWithTerminalRewards(t *testing.T) {
	other := talkative()
	other.UserSim.StopWhen = []string{"facts_stated", "outcome_stated"}
	other.Reply.Facts = []scenarios.Fact{{ID: "f1", What: "refund_amount", Stated: "$70.00"}}
	opts := episode.Options{Seed: 7, RewardMode: episode.Terminal}
	messages := []string{"We will refund $300.00 to you.", "We will refund $70.00 to you.", "Which invoice is it?",
		"Hm."}
	rapid.Check(t, func(rt *rapid.T) {
		sent := rapid.SliceOfN(rapid.SampledFrom(messages), 1, 6).Draw(rt, "messages")
		said, moods := talk(t, opts, talkative(), sent...)
		again, felt := talk(t, opts, other, sent...)
		if diff := cmp.Diff([][]string{said, moods}, [][]string{again, felt}); diff != "" {
			rt.Errorf("the customer reveals the outcome (-one +other):\n%s", diff)
		}
		if spoke := slices.DeleteFunc(said, func(s string) bool { return s == "" }); len(spoke) != min(len(sent), 4) {
			rt.Errorf("the customer spoke %d times after %d messages, want each time up to 4", len(spoke), len(sent))
		}
	})
}

// TestRepliesWithoutQuestionsScoreTheSame compares the scores of tickets with and without a
// customer who answers.
func TestRepliesWithoutQuestionsScoreTheSame(t *testing.T) {
	actions := []string{classifyRight, say(respond, goodReply), escalateFinance}
	_, silent := play(t, start("ticket-resolve", episode.Terminal, goodJudge), actions...)
	_, talking := play(t, startOn("ticket-resolve", episode.Options{Seed: 7, RewardMode: episode.Terminal}, goodJudge,
		talkative()), actions...)
	if silent.Final.Score != talking.Final.Score || talking.Final.Score != 1_000_000 {
		t.Errorf("with a customer who answers %d, without %d, want 1000000", talking.Final.Score, silent.Final.Score)
	}
}

// TestPublicCustomers plays the public scripts with every question that they recognise. They answer
// each, and the answers contain no gold.
func TestPublicCustomers(t *testing.T) {
	catalog := testkit.Catalog(t)
	for _, s := range catalog.Tickets() {
		ticket, err := s.Instantiate(1)
		if err != nil {
			t.Fatal(err)
		}
		if ticket.UserSim == nil {
			continue
		}
		c := newCustomer(&scenarios.DrawnTicket{Served: ticket.Served})
		for i, a := range ticket.UserSim.Answers {
			for _, ask := range a.Ask {
				if !slices.Contains(c.findAsked(ask+"?"), i) {
					t.Errorf("%s: %q? isn't understood as a question for %s", s.ID, ask, a.ID)
				}
			}
			if code := ticket.Gold.ReasonCode; code != "" && strings.Contains(a.Text, code) {
				t.Errorf("%s: the answer %s contains the reason code", s.ID, a.ID)
			}
		}
	}
}
