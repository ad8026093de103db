package workflow

import (
	"math"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/facts"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// The maximum lengths of a payload's texts, in characters.
const (
	maxMessage = 4000
	maxReason  = 2000
	maxName    = 64
	maxAmount  = 32
)

// maxDollars bounds an amount, so that cents never overflow.
const maxDollars = 1e9

// actionForm is the shape of the environment's actions. Every payload field is optional, so that an
// action without a required field is a wrong action and not a malformed one.
var actionForm = episode.NewForm("WorkflowAction", []episode.Field{
	{Name: "payload", Description: "The action's arguments.", Properties: []episode.Field{
		{Name: "order_id", MaxLength: maxName, Description: "An order's id, or a subscription's for its payments."},
		{Name: "payment_id", MaxLength: maxName, Description: "A payment's id."},
		{Name: "sku", MaxLength: maxName, Description: "An item's SKU, as the order shows it."},
		{Name: "amount", MaxLength: maxAmount, Number: true, Description: "Dollars to refund or to credit, for " +
			"example 12.50."},
		{Name: "address", MaxLength: maxReason, Description: "The new address."},
		{
			Name:      "topic",
			MaxLength: maxName,
			Description: "A topic of the policy: " + strings.Join(desk.ListTopics(), ", ") +
				".",
		},
		{Name: "team", MaxLength: maxName, Description: "The team that takes the issue over."},
		{Name: "reason", MaxLength: maxReason, Description: "Why the issue is escalated, for that team."},
		{Name: "message", MaxLength: maxMessage, Description: "What to write to the customer."},
		episode.FactsField(),
	}},
}, []episode.Variant{
	{Type: scenarios.CheckOrderStatus, Description: "looks an order up.", Optional: []string{"payload"},
		Properties: []string{"order_id"}},
	{Type: scenarios.CheckPayment, Description: "looks payments up, by the order or by the payment.",
		Optional: []string{"payload"}, Properties: []string{"order_id", "payment_id"}},
	{Type: scenarios.InitiateRefund, Description: "sends money back; payment_id is needed where there are several " +
		"payments.", Optional: []string{"payload"}, Properties: []string{"order_id", "amount", "payment_id"}},
	{Type: scenarios.EscalateIssue, Description: "hands the issue to a team; order_id and reason may help that team.",
		Optional: []string{"payload"}, Properties: []string{"team", "order_id", "reason"}},
	{Type: desk.CheckShipment, Description: "looks the parcels of an order up." + casesOnly,
		Optional: []string{"payload"}, Properties: []string{"order_id"}},
	{Type: desk.LookUpCustomer, Description: "looks the customer up: level, region, subscriptions, what was given " +
		"before." + casesOnly, Optional: []string{"payload"}, Properties: []string{"order_id"}},
	{Type: desk.LookUpPolicy, Description: "reads a topic of the policy." + casesOnly, Optional: []string{"payload"},
		Properties: []string{"topic"}},
	{Type: desk.AskCustomer, Description: "asks the customer a question." + casesOnly, Optional: []string{"payload"},
		Properties: []string{"message"}},
	{Type: desk.Replacing, Description: "sends an item again." + casesOnly, Optional: []string{"payload"},
		Properties: []string{"order_id", "sku"}},
	{Type: desk.Crediting, Description: "gives store credit; order_id is needed if it is for an order." + casesOnly,
		Optional: []string{"payload"}, Properties: []string{"order_id", "amount"}},
	{Type: desk.Cancelling, Description: "cancels an order." + casesOnly, Optional: []string{"payload"},
		Properties: []string{"order_id"}},
	{Type: desk.Readdressing, Description: "changes the address of an order." + casesOnly,
		Optional: []string{"payload"}, Properties: []string{"order_id", "address"}},
	{Type: scenarios.RespondUser, Description: "writes to the customer and ends the episode, unless it asks for " +
		"what the customer alone knows and the task has no ask_customer.", Optional: []string{"payload"},
		Properties: []string{"message", "facts"}},
})

// casesOnly ends the descriptions of the tools that only the tasks with generated cases have.
const casesOnly = " Only in the tasks case-easy, case-medium and case-hard."

// payloadFields are the payload's fields in the order of the form.
var payloadFields = []string{"order_id", "payment_id", "sku", "amount", "address", "topic", "team", "reason", "message"}

// normalizePayload normalizes an action's arguments as scenarios compare them: ids in capitals,
// teams by name, amounts in cents (int64), facts ([]facts.Fact). Invalid amounts are left out.
func normalizePayload(a episode.Action) map[string]any {
	args := map[string]any{}
	for _, field := range payloadFields {
		text := strings.TrimSpace(a.Get("payload." + field))
		if text == "" {
			continue
		}
		switch field {
		case "order_id", "payment_id", "sku":
			args[field] = strings.ToUpper(strings.TrimPrefix(text, "#"))
		case "topic":
			args[field] = strings.ToLower(text)
		case "team":
			args[field] = episode.TeamName(text)
		case "amount":
			if cents, ok := parseCents(text); ok {
				args[field] = int64(cents)
			}
		default:
			args[field] = text
		}
	}
	if stated := a.Facts(); len(stated) > 0 {
		args["facts"] = stated
	}
	return args
}

// parseCents reads "12.50", "$12.50" or a JSON number. It refuses parts of a cent, zero and
// negative amounts.
func parseCents(text string) (scenarios.Cents, bool) {
	dollars, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil || strings.ContainsAny(text, "xX") || !(dollars > 0 && dollars <= maxDollars) {
		return 0, false
	}
	cents := math.Round(dollars * 100)
	if cents == 0 || math.Abs(dollars*100-cents) > 1e-4 {
		return 0, false
	}
	return scenarios.Cents(cents), true
}

func getString(args map[string]any, field string) string {
	s, _ := args[field].(string)
	return s
}

func getFacts(args map[string]any) []facts.Fact {
	stated, _ := args["facts"].([]facts.Fact)
	return stated
}
