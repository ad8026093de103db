package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// heuristicCase is the heuristic for generated cases. It asks for the order if the message names
// none, looks everything up, reads the topic that the message's words suggest, and hands the case
// to finance if the message is about a sum above its limit. It understands no rule.
type heuristicCase struct {
	order string
	calls []caseCall
	next  int
	last  json.RawMessage
	// handed is the team that took the case over.
	handed string
	// talks means that the customer answers messages.
	talks bool
}

type caseCall struct {
	tool string
	args map[string]any
}

// topicWords are words of a message and the topic that they suggest, in the order in which they are
// looked for.
var topicWords = [][2]string{
	{"return", "returns"}, {"send it back", "returns"}, {"withdraw", "returns"}, {"broken", "damage"},
	{"damage", "damage"}, {"defect", "damage"}, {"warranty", "damage"}, {"stopped", "damage"}, {"wrong", "damage"},
	{"parcel", "delivery"}, {"deliver", "delivery"}, {"tracking", "delivery"}, {"address", "delivery"},
	{"duties", "delivery"}, {"customs", "delivery"}, {"subscription", "subscriptions"}, {"plan", "subscriptions"},
	{"outage", "subscriptions"}, {"account", "accounts"}, {"data", "accounts"}, {"e-mail", "accounts"},
}

// Act goes through the plan. It repeats a failed call once.
func (h *heuristicCase) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := decodeObservation[workflowView](turn)
	if err != nil {
		return nil, err
	}
	if h.calls == nil {
		h.planCalls(v.UserQuery)
	}
	if r := v.LastResult; r != nil {
		if ids := findIDs(r.Answer); len(ids) > 0 && h.order == "" {
			h.order = ids[0]
		}
		if !r.OK && h.last != nil {
			raw := h.last
			h.last = nil
			return raw, nil
		}
	}
	for h.next < len(h.calls) {
		c := h.calls[h.next]
		h.next++
		if c.args == nil {
			if h.order == "" {
				continue // the case is about no order
			}
			c.args = map[string]any{"order_id": h.order}
		}
		h.last, err = encodeCall(c.tool, c.args)
		return h.last, err
	}
	return encodeCall(desk.RespondUser, map[string]any{"message": h.writeReply(&v), "facts": statedTeam(h.handed)})
}

func (h *heuristicCase) planCalls(query string) {
	if ids := findIDs(query); len(ids) > 0 {
		h.order = ids[0]
	} else if h.talks {
		h.calls = append(h.calls, caseCall{desk.Tell, map[string]any{
			"message": "Could you tell me the number of your order, please?", "asks": []string{"order"}}})
	} else {
		h.calls = append(h.calls, caseCall{desk.AskCustomer, map[string]any{
			"message": "Could you tell me the number of your order, please?"}})
	}
	topic := "money"
	for _, w := range topicWords {
		if strings.Contains(strings.ToLower(query), w[0]) {
			topic = w[1]
			break
		}
	}
	h.calls = append(h.calls, caseCall{tool: desk.CheckOrder}, caseCall{desk.LookUpCustomer, map[string]any{}},
		caseCall{tool: desk.CheckPayment},
		caseCall{desk.LookUpPolicy, map[string]any{"topic": topic}})
	if sum := findLargestAmount(query); sum > refundLimit {
		h.handed = "finance"
		h.calls = append(h.calls, caseCall{desk.Escalating, map[string]any{"team": h.handed}})
	}
}

// statedTeam states the team that takes over, if one does.
func statedTeam(team string) []facts.Fact {
	if team == "" {
		return nil
	}
	return []facts.Fact{{What: "team", Value: team}}
}

func (h *heuristicCase) writeReply(v *workflowView) string {
	reply := fmt.Sprintf("Dear %s, thank you for your message about %s. ", firstName(v.CustomerName), h.order)
	if h.handed != "" {
		reply += fmt.Sprintf("Our %s team takes care of it and writes to you. ", h.handed)
	} else {
		reply += "I have looked into it, and everything is as our policy says. "
	}
	return reply + "Kind regards, Larkfield Support"
}
