package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReading(t *testing.T) {
	text := "Order LD-123456 and INV-0042 (LD-123456 again): $1,482.00, then $ 7 and $12.50; not AB12."
	if diff := cmp.Diff([]string{"LD-123456", "INV-0042"}, findIDs(text)); diff != "" {
		t.Errorf("findIDs() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{148200, 700, 1250}, findAmounts(text)); diff != "" {
		t.Errorf("amounts() (-want +got):\n%s", diff)
	}
	if got := findLargestAmount(text); got != 148200 {
		t.Errorf("largest() = %d, want 148200", got)
	}
	if got := []int{findNumber(minutesPattern, "in 25 minutes"), findNumber(minutesPattern, "soon"),
		findNumber(devicesPattern, "7 cameras are off")}; !cmp.Equal(got, []int{25, -1, 7}) {
		t.Errorf("number() = %v, want 25, -1, 7", got)
	}
}

func TestPhrasesMatchTheBeginningOfWords(t *testing.T) {
	tests := map[string]struct {
		text, phrase string
		want         bool
	}{
		"whole word":   {text: "a fee today", phrase: "fee", want: true},
		"beginning":    {text: "we were charged", phrase: "charge", want: true},
		"inside":       {text: "my coffee", phrase: "fee", want: false},
		"second try":   {text: "coffee fee", phrase: "fee", want: true},
		"first":        {text: "fee", phrase: "fee", want: true},
		"after a mark": {text: "(fee)", phrase: "fee", want: true},
		"nothing":      {text: "", phrase: "fee", want: false},
	}
	for name, tc := range tests {
		if got := hasPhrase(tc.text, tc.phrase); got != tc.want {
			t.Errorf("%s: has(%q, %q) = %v, want %v", name, tc.text, tc.phrase, got, tc.want)
		}
	}
}

func TestHeuristicClassifiesTickets(t *testing.T) {
	tests := map[string]struct {
		text                     string
		category, priority, team string
	}{
		"danger in passing": {text: "the delivery was late, and the lock opened by itself at night",
			category: "technical", priority: "urgent",
			team: "safety"},
		"shouting": {text: "urgent!!! where do i find my invoice", category: "billing", priority: "low",
			team: ""},
		"over the limit": {text: "you charged me $640.00 too much on this invoice", category: "billing",
			priority: "high", team: "finance"},
		"within the limit": {text: "you charged me $64.00 twice on this invoice", category: "billing",
			priority: "medium", team: ""},
		"a deadline": {text: "the courier unloads my parcel at the wrong address in 40 minutes", category: "shipping",
			priority: "urgent",
			team:     ""},
		"too dear a parcel": {text: "my parcel worth $180.00 went to the wrong house", category: "shipping",
			priority: "medium", team: "logistics"},
		"many devices": {text: "9 cameras are offline since the update", category: "technical", priority: "high",
			team: "incident"},
		"charges in process": {text: "three charges of $80.00 that i do not recognise, and they go on",
			category: "billing", priority: "urgent",
			team: "security"},
		"a question": {text: "do you support zigbee?", category: "general", priority: "low", team: ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var c heuristicTicket
			got := []string{chooseCategory(tc.text), choosePriority(tc.text), c.chooseTeam(tc.text)}
			if diff := cmp.Diff([]string{tc.category, tc.priority, tc.team}, got); diff != "" {
				t.Errorf("category, priority, team (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeuristicReadsLimitsInArticles(t *testing.T) {
	text := "you charged me $190.00 too much on this invoice"
	c := heuristicTicket{articles: []article{{ID: "POL-REF",
		Body: "# Refunds\n## 3. Limit\nAn agent may refund up to " +
			"$180.00 in one case."}}}
	if got := c.chooseTeam(text); got != "finance" {
		t.Errorf("team() = %q, want finance: the article's limit is lower", got)
	}
}

func TestHeuristicQuotesRelevantSentences(t *testing.T) {
	c := heuristicTicket{articles: []article{{Body: "# Recovery\nUnplug the hub for 30 seconds. Nothing of interest " +
		"stands in here. An agent may send 2 of them today."}}}
	reply := c.writeReply(&ticketView{CustomerName: "Ada Moss", Description: "My hub INV-1234 is dead"})
	for _, want := range []string{"Dear Ada,", "INV-1234", "Unplug the hub for 30 seconds."} {
		if !strings.Contains(reply, want) {
			t.Errorf("the reply lacks %q:\n%s", want, reply)
		}
	}
	if strings.Contains(reply, "An agent may") {
		t.Errorf("the reply describes the agents' authority to the customer:\n%s", reply)
	}
}

// talk runs the heuristic for workflows on a list of observations and returns its actions.
func talk(t *testing.T, observations ...string) []string {
	t.Helper()
	var c heuristicWorkflow
	var actions []string
	for step, o := range observations {
		raw, err := c.Act(t.Context(), Turn{Observation: json.RawMessage(o), Step: step})
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
	got := talk(t, `{`+asksForRefund+`}`, delivered, paid("12.50"), `{`+asksForRefund+`,"last_result":{"ok":true}}`)
	want := []string{
		`{"action_type":"check_order_status","payload":{"order_id":"LD-123456"}}`,
		`{"action_type":"check_payment","payload":{"order_id":"LD-123456"}}`,
		`{"action_type":"initiate_refund","payload":{"amount":12.50,"order_id":"LD-123456"}}`,
	}
	if diff := cmp.Diff(want, got[:3]); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	for _, fact := range []string{"refunded $12.50", "delivered on March 1, 2026", "Norvik"} {
		if !strings.Contains(got[3], fact) {
			t.Errorf("the reply lacks %q: %s", fact, got[3])
		}
	}
}

func TestCaseworkerEscalatesAboveItsLimit(t *testing.T) {
	got := talk(t, `{`+asksForRefund+`}`, delivered, paid("480.00"))
	if want := `{"action_type":"escalate_issue","payload":{"order_id":"LD-123456","team":"finance"}}`; got[2] != want {
		t.Errorf("third action = %s, want %s", got[2], want)
	}
}

func TestCaseworkerRepeatsAFailedCallOnce(t *testing.T) {
	failed := `{` + asksForRefund + `,"last_result":{"ok":false,"error":"503"}}`
	got := talk(t, `{`+asksForRefund+`}`, failed, failed)
	if got[1] != got[0] || got[2] == got[0] {
		t.Errorf("actions = %q, want the first one twice and then another", got)
	}
}

func TestCaseworkerAsksForTheOrder(t *testing.T) {
	got := talk(t, `{"customer_name":"Ada Moss","user_query":"Where is it?"}`,
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
