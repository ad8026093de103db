package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// heuristicWorkflow is the heuristic for workflows. It looks up order and payments, refunds or
// escalates by simple rules, and replies with the values of typed fields and short details. It
// doesn't read the free text of records, whether a hint or a trap.
type heuristicWorkflow struct {
	id    string
	asked bool
	stage int
	last  json.RawMessage
	// team is the one that took the issue over.
	team     string
	retried  bool
	order    *orderRecord
	payments []paymentRecord
	refunds  []refundRecord
	done     string
}

const (
	// returnDays is the number of days after the delivery within which the heuristic refunds.
	returnDays = 30
	// shortDetail is the maximum length, in bytes, of a detail that counts as a value: a date, an
	// amount, a place.
	shortDetail = 24
	// dayFormat is the format of dates in replies.
	dayFormat = "January 2, 2006"
)

// Act goes through the stages: ask for the order if necessary, look up, decide, reply. It repeats a
// failed action once.
func (h *heuristicWorkflow) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := decodeObservation[workflowView](turn)
	if err != nil {
		return nil, err
	}
	if v.LastResult != nil {
		if !v.LastResult.OK && !h.retried {
			h.retried = true
			return h.last, nil
		}
		h.readResult(v.LastResult)
	}
	raw, err := h.nextAction(&v)
	h.last, h.retried = raw, false
	return raw, err
}

func (h *heuristicWorkflow) readResult(r *toolResult) {
	if r.Order != nil {
		h.order = r.Order
	}
	if r.Payments != nil {
		h.payments, h.refunds = r.Payments, r.Refunds
	}
	if ids := findIDs(r.Answer); len(ids) > 0 {
		h.id = ids[0]
	}
}

func (h *heuristicWorkflow) nextAction(v *workflowView) (json.RawMessage, error) {
	if ids := findIDs(v.UserQuery); h.id == "" && len(ids) > 0 {
		h.id = ids[0]
	}
	if h.id == "" && !h.asked {
		h.asked = true
		return encodeCall(desk.RespondUser, map[string]any{
			"message": "Could you tell me the number of your order, please?"})
	}
	h.stage++
	switch {
	case h.stage == 1:
		return encodeCall(desk.CheckOrder, map[string]any{"order_id": h.id})
	case h.stage == 2 && hasWordOf(strings.ToLower(v.UserQuery), "money"):
		return encodeCall(desk.CheckPayment, map[string]any{"order_id": h.id})
	case h.done == "":
		if raw, err := h.settleIssue(v); raw != nil || err != nil {
			return raw, err
		}
	}
	return encodeCall(desk.RespondUser, map[string]any{"message": h.writeReply(v), "facts": h.stateFacts()})
}

// stateFacts states what was done and the records of the order.
func (h *heuristicWorkflow) stateFacts() []facts.Fact {
	var stated []facts.Fact
	add := func(what, value string) {
		if value != "" {
			stated = append(stated, facts.Fact{What: what, Value: value})
		}
	}
	if amount, ok := strings.CutPrefix(h.done, "refunded "); ok {
		add("refund_amount", amount)
	}
	add("team", h.team)
	if o := h.order; o != nil {
		add("carrier", o.Carrier)
		add("reference", o.Tracking)
		if o.Delivered != nil {
			add("delivered_on", o.Delivered.Format(dayFormat))
		}
	}
	for _, r := range h.refunds {
		add("refund_amount", "$"+r.Amount.String())
	}
	return stated[:min(len(stated), facts.MaxStated)]
}

// settleIssue refunds or escalates, or returns nil if neither is needed.
func (h *heuristicWorkflow) settleIssue(v *workflowView) (json.RawMessage, error) {
	h.done = "nothing"
	captured := h.capturedAmount()
	switch {
	case h.order == nil || len(h.refunds) > 0:
		return nil, nil
	case strings.Contains(h.order.Status, "hold"):
		return h.escalateTo("logistics")
	case h.order.Status == "payment_failed" && captured != "":
		return h.escalateTo("finance")
	case captured == "" || !hasWordOf(strings.ToLower(v.UserQuery), "refund") || !h.isReturnable(v.Now):
		return nil, nil
	case findLargestAmount("$"+captured) > refundLimit:
		return h.escalateTo("finance")
	}
	h.done = "refunded $" + captured
	return encodeCall(desk.Refunding, map[string]any{"order_id": h.id, "amount": json.Number(captured)})
}

// capturedAmount returns the amount of the last captured payment, or "".
func (h *heuristicWorkflow) capturedAmount() string {
	for _, p := range slices.Backward(h.payments) {
		if p.Status == "captured" {
			return p.Amount.String()
		}
	}
	return ""
}

func (h *heuristicWorkflow) isReturnable(now time.Time) bool {
	return h.order.Delivered != nil && now.Sub(*h.order.Delivered) <= returnDays*24*time.Hour
}

func (h *heuristicWorkflow) escalateTo(team string) (json.RawMessage, error) {
	h.done, h.team = "passed your case to our "+team+" team", team
	return encodeCall(desk.Escalating, map[string]any{"team": team, "order_id": h.id})
}

// writeReply states the actions and lists the records.
func (h *heuristicWorkflow) writeReply(v *workflowView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Dear %s,\n\nthank you for your message about %s. ", firstName(v.CustomerName), h.id)
	if h.done != "nothing" && h.done != "" {
		fmt.Fprintf(&b, "I have %s. ", h.done)
	}
	if o := h.order; o != nil {
		h.describeOrder(&b, o)
	}
	for _, p := range h.payments {
		fmt.Fprintf(&b, "Your payment of $%s is %s. ", p.Amount, p.Status)
	}
	for _, r := range h.refunds {
		fmt.Fprintf(&b, "The refund %s of $%s was made", r.ID, r.Amount)
		if r.At != nil {
			fmt.Fprintf(&b, " on %s", r.At.Format(dayFormat))
		}
		b.WriteString(". ")
	}
	b.WriteString("\n\nKind regards,\nLarkfield Support")
	return b.String()
}

func (h *heuristicWorkflow) describeOrder(b *strings.Builder, o *orderRecord) {
	fmt.Fprintf(b, "Your order is %s", strings.ReplaceAll(o.Status, "_", " "))
	if o.Carrier != "" {
		fmt.Fprintf(b, " with the carrier %s", o.Carrier)
	}
	if o.Tracking != "" {
		fmt.Fprintf(b, ", tracking number %s", o.Tracking)
	}
	if o.Delivered != nil {
		fmt.Fprintf(b, ", and it was delivered on %s", o.Delivered.Format(dayFormat))
	}
	b.WriteString(". ")
	for _, name := range slices.Sorted(maps.Keys(o.Details)) {
		if value := o.Details[name]; len(value) <= shortDetail {
			fmt.Fprintf(b, "It says of %s: %s. ", strings.ReplaceAll(name, "_", " "), value)
		}
	}
}
