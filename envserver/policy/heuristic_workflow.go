package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios"
)

// heuristicWorkflow is the heuristic for workflows. It looks up order and payments, refunds or
// escalates by simple rules, and replies with the values of typed fields and short details. It
// doesn't read the free text of records, whether a hint or a trap.
type heuristicWorkflow struct {
	id       string
	asked    bool
	stage    int
	last     json.RawMessage
	retried  bool
	order    *orderRecord
	payments []paymentRecord
	refunds  []refundRecord
	done     string
}

const (
	// returnDays is how many days after the delivery the heuristic refunds.
	returnDays = 30
	// shortDetail is the longest detail, in bytes, that is taken for a value: a date, an amount, a
	// place.
	shortDetail = 24
	// dayFormat is the format of dates in replies.
	dayFormat = "January 2, 2006"
)

// Act goes through the heuristic's stages: ask for the order if need be, look up, decide, reply. An
// action that failed is played again once.
func (c *heuristicWorkflow) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := observed[workflowView](turn)
	if err != nil {
		return nil, err
	}
	if v.LastResult != nil {
		if !v.LastResult.OK && !c.retried {
			c.retried = true
			return c.last, nil
		}
		c.read(v.LastResult)
	}
	raw, err := c.next(&v)
	c.last, c.retried = raw, false
	return raw, err
}

func (c *heuristicWorkflow) read(r *toolResult) {
	if r.Order != nil {
		c.order = r.Order
	}
	if r.Payments != nil {
		c.payments, c.refunds = r.Payments, r.Refunds
	}
	if ids := findIDs(r.Answer); len(ids) > 0 {
		c.id = ids[0]
	}
}

func (c *heuristicWorkflow) next(v *workflowView) (json.RawMessage, error) {
	if ids := findIDs(v.UserQuery); c.id == "" && len(ids) > 0 {
		c.id = ids[0]
	}
	if c.id == "" && !c.asked {
		c.asked = true
		return call(scenarios.RespondUser, map[string]any{
			"message": "Could you tell me the number of your order, please?"})
	}
	c.stage++
	switch {
	case c.stage == 1:
		return call(scenarios.CheckOrderStatus, map[string]any{"order_id": c.id})
	case c.stage == 2 && c.aboutMoney(v):
		return call(scenarios.CheckPayment, map[string]any{"order_id": c.id})
	case c.done == "":
		if raw, err := c.act(v); raw != nil || err != nil {
			return raw, err
		}
	}
	return call(scenarios.RespondUser, map[string]any{"message": c.reply(v)})
}

func (c *heuristicWorkflow) aboutMoney(v *workflowView) bool {
	return is(strings.ToLower(v.UserQuery), "money")
}

// act refunds or escalates; it returns nothing where neither is called for.
func (c *heuristicWorkflow) act(v *workflowView) (json.RawMessage, error) {
	c.done = "nothing"
	captured := c.captured()
	switch {
	case c.order == nil || len(c.refunds) > 0:
		return nil, nil
	case strings.Contains(c.order.Status, "hold"):
		return c.escalate("logistics")
	case c.order.Status == "payment_failed" && captured != "":
		return c.escalate("finance")
	case captured == "" || !c.wantsMoneyBack(v) || !c.returnable(v.Now):
		return nil, nil
	case largest("$"+captured) > refundLimit:
		return c.escalate("finance")
	}
	c.done = "refunded $" + captured
	return call(scenarios.InitiateRefund, map[string]any{"order_id": c.id, "amount": json.Number(captured)})
}

func (c *heuristicWorkflow) wantsMoneyBack(v *workflowView) bool {
	return is(strings.ToLower(v.UserQuery), "refund")
}

// captured is the amount of the last payment that was taken, "" without any.
func (c *heuristicWorkflow) captured() string {
	for _, p := range slices.Backward(c.payments) {
		if p.Status == "captured" {
			return p.Amount.String()
		}
	}
	return ""
}

func (c *heuristicWorkflow) returnable(now time.Time) bool {
	return c.order.Delivered != nil && now.Sub(*c.order.Delivered) <= returnDays*24*time.Hour
}

func (c *heuristicWorkflow) escalate(team string) (json.RawMessage, error) {
	c.done = "passed your case to our " + team + " team"
	return call(scenarios.EscalateIssue, map[string]any{"team": team, "order_id": c.id})
}

// reply says what was done and lists what the records hold.
func (c *heuristicWorkflow) reply(v *workflowView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Dear %s,\n\nthank you for your message about %s. ", firstName(v.CustomerName), c.id)
	if c.done != "" && c.done != "nothing" {
		fmt.Fprintf(&b, "I have %s. ", c.done)
	}
	if o := c.order; o != nil {
		c.describeOrder(&b, o)
	}
	for _, p := range c.payments {
		fmt.Fprintf(&b, "Your payment of $%s is %s. ", p.Amount, p.Status)
	}
	for _, r := range c.refunds {
		fmt.Fprintf(&b, "The refund %s of $%s was made", r.ID, r.Amount)
		if r.At != nil {
			fmt.Fprintf(&b, " on %s", r.At.Format(dayFormat))
		}
		b.WriteString(". ")
	}
	b.WriteString("\n\nKind regards,\nLarkfield Support")
	return b.String()
}

func (c *heuristicWorkflow) describeOrder(b *strings.Builder, o *orderRecord) {
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
