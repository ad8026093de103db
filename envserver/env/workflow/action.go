package workflow

import (
	"math"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
	"github.com/csenv/csenv/tasks"
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
	{Name: "payload", Description: "The action's arguments.", Properties: append(payloadTexts, episode.FactsField(),
		episode.Field{Name: "asks", Enum: talk.Topics, Many: true,
			Description: "What the message asks the customer about."},
		episode.Field{Name: "offers", Enum: desk.ListChanges(), Many: true,
			Description: "The tools with which the message proposes to settle a request."},
		episode.Field{Name: "confirms", Enum: desk.ListChanges(), Many: true,
			Description: "The tools of which the message asks whether the change should be made. Their arguments are " +
				"the payload's other fields, the same as in the change itself."})},
}, listVariants())

// payloadTexts are the payload's members but the facts.
var payloadTexts = []episode.Field{
	{Name: "order_id", MaxLength: maxName, Description: "An order's id, or a subscription's for its payments."},
	{Name: "payment_id", MaxLength: maxName, Description: "A payment's id."},
	{Name: "sku", MaxLength: maxName, Description: "An item's SKU, as the order shows it."},
	{Name: "amount", MaxLength: maxAmount, Number: true, Description: "Dollars to refund or to credit, for " +
		"example 12.50."},
	{Name: "address", MaxLength: maxReason, Description: "The new address."},
	{Name: "topic", MaxLength: maxName, Description: "A topic of the policy: " +
		strings.Join(desk.ListTopics(), ", ") + ", in conversations also " + desk.Conversations + "."},
	{Name: "team", MaxLength: maxName, Description: "The team that takes the issue over."},
	{Name: "reason", MaxLength: maxReason, Description: "Why the issue is escalated, for that team."},
	{Name: "message", MaxLength: maxMessage, Description: "What to write to the customer."},
}

// listVariants makes a variant of each tool.
func listVariants() []episode.Variant {
	var variants []episode.Variant
	for _, t := range desk.Tools {
		v := episode.Variant{Type: t.Name, Description: t.About, Optional: []string{"payload"}}
		if t.Tasks != 0 {
			v.Description += " Only in the tasks " + strings.Join(listTasks(&t), ", ") + "."
		}
		for _, arg := range t.Args {
			v.Properties = append(v.Properties, strings.TrimSuffix(arg, "?"))
		}
		variants = append(variants, v)
	}
	return variants
}

// listTasks lists the tasks of generated cases that have a tool.
func listTasks(tool *desk.Tool) (names []string) {
	for _, t := range tasks.OfEnvironment(tasks.Workflow) {
		if tool.In(KindOf(&t)) {
			names = append(names, t.Name)
		}
	}
	return names
}

// KindOf is the kind of a task.
func KindOf(t *tasks.Task) desk.TaskKinds {
	switch {
	case t.Talks:
		return desk.Talks
	case t.Generated:
		return desk.Cases
	}
	return desk.Written
}

// normalizePayload normalizes an action's arguments as scenarios compare them: ids in capitals,
// teams by name, amounts in cents (int64), facts ([]facts.Fact). Invalid amounts are left out.
func normalizePayload(a episode.Action) map[string]any {
	args := map[string]any{}
	for i := range payloadTexts {
		field := payloadTexts[i].Name
		text := strings.TrimSpace(a.Get("payload." + field))
		if text == "" {
			continue
		}
		switch field {
		case "order_id", "payment_id", "sku":
			args[field] = NormalizeID(text)
		case "topic":
			args[field] = strings.ToLower(text)
		case "team":
			args[field] = episode.TeamName(text)
		case "amount":
			if cents, ok := ParseCents(text); ok {
				args[field] = int64(cents)
			}
		default:
			args[field] = text
		}
	}
	if stated := a.Facts(); len(stated) > 0 {
		args["facts"] = stated
	}
	for _, field := range []string{"asks", "offers", "confirms"} {
		if list := a.List("payload." + field); len(list) > 0 {
			args[field] = list
		}
	}
	return args
}

// NormalizeID returns an id as scenarios compare it.
func NormalizeID(text string) string { return strings.ToUpper(strings.TrimPrefix(text, "#")) }

// ParseCents reads "12.50", "$12.50" or a JSON number. It refuses parts of a cent, zero and
// negative amounts.
func ParseCents(text string) (scenarios.Cents, bool) {
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

func getFacts(args map[string]any) []facts.Fact {
	stated, _ := args["facts"].([]facts.Fact)
	return stated
}
