package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/tasks"
)

func TestReading(t *testing.T) {
	text := "Order LD-123456 and INV-0042 (LD-123456 again): $1,482.00, then $ 7 and $12.50; not AB12."
	if diff := cmp.Diff([]string{"INV-0042", "LD-123456"}, findIDs(text)); diff != "" {
		t.Errorf("findIDs() (-want +got):\n%s", diff)
	}
	if got := findLargestAmount(text); got != 148200 {
		t.Errorf("findLargestAmount() = %d, want 148200", got)
	}
	if got := findLargestAmount("nothing"); got != 0 {
		t.Errorf("findLargestAmount() = %d, want 0", got)
	}
}

func TestWordsMatchAtTheirBeginning(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"whole word":   {"A fee today", "billing"},
		"beginning":    {"We were charged", "billing"},
		"inside":       {"My coffee", "none"},
		"second try":   {"coffee fee", "billing"},
		"first":        {"fee", "billing"},
		"after a mark": {"(fee)", "billing"},
		"nothing":      {"", "none"},
	}
	for name, tc := range tests {
		if got := chooseByWords("category", splitWords(tc.text), "none"); got != tc.want {
			t.Errorf("%s: chooseByWords(%q) = %s, want %s", name, tc.text, got, tc.want)
		}
	}
}

func TestHeuristicClassifiesTickets(t *testing.T) {
	tests := map[string]struct {
		text                     string
		category, priority, team string
	}{
		"danger in passing": {"the delivery was late, and the lock opened by itself at night", "technical", "urgent", "safety"},
		"shouting":          {"URGENT!!! where do i find my invoice", "billing", "low", ""},
		"over the limit":    {"you charged me $640.00 too much on this invoice", "billing", "high", "finance"},
		"within the limit":  {"you charged me $64.00 twice on this invoice", "billing", "medium", ""},
		"many devices":      {"9 cameras are offline since the update", "technical", "high", ""},
		"fraud":             {"three charges of $80.00 that i do not recognise, and they go on", "billing", "urgent", "security"},
		"a question":        {"do you support zigbee?", "general", "low", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text := splitWords(tc.text)
			got := []string{chooseByWords("category", text, "general"), choosePriority(text), chooseTeam(text)}
			if diff := cmp.Diff([]string{tc.category, tc.priority, tc.team}, got); diff != "" {
				t.Errorf("category, priority, team (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeuristicQuotesRelevantSentences(t *testing.T) {
	got := quoteArticles([]article{{Body: "# Recovery\nUnplug the hub for 30 seconds. Nothing of interest stands in " +
		"here. Some more sentences of no interest. An agent may send 2 of them today."}}, splitWords("The hub is dead"))
	if len(got) != 3 || got[0] != "Unplug the hub for 30 seconds." {
		t.Errorf("quoted %q, want three sentences, first the one about the hub", got)
	}
	if strings.Contains(strings.Join(got, ""), "An agent may") {
		t.Errorf("quoted %q: customers needn't know the agents' authority", got)
	}
}

func TestHeuristicTakesTheMostUrgentTicketFirst(t *testing.T) {
	v := ticketView{TicketID: "T1", Queue: []queuedTicket{{"T1", "A question", "open"}, {"T2", "Smoke from a hub", "resolved"},
		{"T3", "Locked out", "open"}}}
	if got := findMostUrgent(&v); got != "T3" {
		t.Errorf("findMostUrgent() = %s, want T3: T2 is closed", got)
	}
}

// converse runs the heuristic for workflows on a list of observations and returns its actions.
func converse(t *testing.T, observations ...string) []string {
	t.Helper()
	c := newHeuristic("refund")
	var actions []string
	for step, o := range observations {
		raw, err := c.Act(t.Context(), Turn{Environment: tasks.Workflow, Observation: json.RawMessage(o), Step: step})
		if err != nil {
			t.Fatal(err)
		}
		actions = append(actions, string(raw))
	}
	return actions
}

const (
	asksForRefund = `"now":"2026-03-14T09:00:00Z","customer_name":"Ada Moss","user_query":"Please refund LD-123456."`
	delivered     = `{` + asksForRefund +
		`,"last_result":{"ok":true,"order":{"order_id":"LD-123456","status":"delivered",` +
		`"delivered":"2026-03-01T09:00:00Z","carrier":"Norvik"}}}`
)

func paid(amount string) string {
	return `{` + asksForRefund +
		`,"last_result":{"ok":true,"payments":[{"payment_id":"PAY-1","status":"captured","amount":` + amount + `}]}}`
}

func TestCaseworkerRefundsWithinItsLimit(t *testing.T) {
	got := converse(t, `{`+asksForRefund+`}`, delivered, paid("12.50"), `{`+asksForRefund+`,"last_result":{"ok":true}}`)
	want := []string{
		`{"action_type":"check_order_status","payload":{"order_id":"LD-123456"}}`,
		`{"action_type":"check_payment","payload":{"order_id":"LD-123456"}}`,
		`{"action_type":"initiate_refund","payload":{"amount":12.50,"order_id":"LD-123456"}}`,
	}
	if diff := cmp.Diff(want, got[:3]); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	for _, fact := range []string{"refund amount: $12.50", "delivered on: March 1, 2026", "Norvik"} {
		if !strings.Contains(got[3], fact) {
			t.Errorf("the reply lacks %q: %s", fact, got[3])
		}
	}
}

func TestCaseworkerEscalatesAboveItsLimit(t *testing.T) {
	got := converse(t, `{`+asksForRefund+`}`, delivered, paid("480.00"))
	if want := `{"action_type":"escalate_issue","payload":{"order_id":"LD-123456","team":"finance"}}`; got[2] != want {
		t.Errorf("third action = %s, want %s", got[2], want)
	}
}

func TestCaseworkerRepeatsAFailedCallOnce(t *testing.T) {
	failed := `{` + asksForRefund + `,"last_result":{"ok":false,"error":"503"}}`
	got := converse(t, `{`+asksForRefund+`}`, failed, failed)
	if got[1] != got[0] || got[2] == got[0] {
		t.Errorf("actions = %q, want the first one twice and then another", got)
	}
}

func TestCaseworkerAsksForTheOrder(t *testing.T) {
	got := converse(t, `{"customer_name":"Ada Moss","user_query":"Where is it?"}`,
		`{"user_query":"Where is it?","last_result":{"ok":true,"answer":"It is LD-654321."}}`)
	if !strings.Contains(got[0], "respond_user") || !strings.Contains(got[0], "?") ||
		!strings.Contains(got[1], "LD-654321") {
		t.Errorf("actions = %q, want a question and then a look-up of LD-654321", got)
	}
}

func TestOracleRepeatsFailedCalls(t *testing.T) {
	o := &oracle{script: []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`2`)}}
	var got []string
	for _, observation := range []string{`{}`, `{"last_result":{"ok":false}}`, `{"last_result":{"ok":true}}`} {
		raw, err := o.Act(t.Context(), Turn{Observation: json.RawMessage(observation)})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
	if diff := cmp.Diff([]string{"1", "1", "2"}, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if _, err := o.Act(t.Context(), Turn{Observation: json.RawMessage(`{}`)}); err == nil {
		t.Error("Act() after the script gave an action")
	}
}
