package ticket

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
)

func TestFirstObservation(t *testing.T) {
	k := testKind(judgeFunc(goodJudge))
	e := &environment{kind: k}
	got := begin(e, "ticket-resolve", []*scenarios.Ticket{testTicket()},
		episode.Options{Seed: 7, RewardMode: episode.Terminal})
	want := Observation{
		Task: "ticket-resolve", TicketID: episode.OpaqueID("T", "", 7), Now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC),
		CustomerName: "Ada Moss",
		Company:      "Fern Ltd", CustomerSince: "2024-01-02", AccountLevel: "premium", Language: "en",
		Subject: "Wrong invoice", Description: "I was charged too much.",
		Attachments:         []Attachment{{Name: "invoice.txt", Content: "30 seats"}},
		ConversationHistory: []Message{{Role: "customer", Content: "Hello?"}},
		Status:              "open", MaxSteps: 10, Feedback: "A ticket has come in.",
		AllowedActions: []string{"classify", "respond", "resolve", "escalate", "search_knowledge_base", "submit"},
	}
	if diff := cmp.Diff(want, got.Observation); diff != "" {
		t.Errorf("observation (-want +got):\n%s", diff)
	}
	if got.Reward != 0 || got.Done || got.Final != nil {
		t.Errorf("reset = %+v, want reward 0, not done", got)
	}
}

func TestObservationsFollowTheTicket(t *testing.T) {
	e := start("ticket-resolve", episode.Dense, goodJudge)
	type view struct {
		Status   string
		Step     int
		Score    float64
		Feedback string
		Articles int
		Messages int
		Classify bool
	}
	see := func(r episode.Result) view {
		o := r.Observation.(Observation)
		return view{o.Status, o.Step, *o.Score, o.Feedback, len(o.KnowledgeBase), len(o.ConversationHistory),
			strings.Contains(strings.Join(o.AllowedActions, " "), "classify")}
	}
	got := []view{
		see(step(t, e, `{"action_type":"search_knowledge_base","query":"the refund limit"}`)),
		see(step(t, e, classifyRight)),
		see(step(t, e, classifyRight)),
		see(step(t, e, say(respond, goodReply))),
		see(step(t, e, `{"action_type":"search_knowledge_base","query":"zebra"}`)),
		see(step(t, e, escalateFinance)),
	}
	want := []view{
		{"in_progress", 1, 0, "The knowledge base has 2 matching articles.", 2, 1, true},
		{"in_progress", 2, 0.3, "Category: billing. Priority: high.", 0, 1, false},
		{"in_progress", 3, 0.3, "Nothing was done: category and priority can be set once each, and what you sent is " +
			"set already.", 0, 1, false},
		{"pending_customer", 4, 0.3, "Your reply was sent; the customer has not answered yet. Resolve or escalate " +
			"the ticket to end it.", 0, 2, false},
		{"pending_customer", 5, 0.3, "The knowledge base has no article with these words.", 0, 2, false},
		{"escalated", 6, 1, "The ticket is escalated.", 0, 2, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
}

// TestSessionDoesNotRevealGold searches everything that a session receives before the end for
// labels that the agent has not named.
func TestSessionDoesNotRevealGold(t *testing.T) {
	e := start("ticket-resolve", episode.Terminal, goodJudge)
	var told strings.Builder
	for _, a := range []string{classifyWrong, say(respond, "Hm."),
		`{"action_type":"search_knowledge_base","query":"zebra"}`} {
		told.WriteString(testkit.EncodeJSON(step(t, e, a).Observation))
		told.WriteString(testkit.EncodeJSON(e.State()))
	}
	for _, secret := range []string{"billing", "high", "finance", "OVER_LIMIT", "B99", "240"} {
		if strings.Contains(told.String(), secret) {
			t.Errorf("the session received %q: %s", secret, told.String())
		}
	}
}
