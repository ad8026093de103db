package customer

import (
	"context"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
	"github.com/csenv/csenv/scenarios/text"
)

// reading is what the model reads in a message.
type reading struct {
	Asks []struct {
		Topic string `json:"topic"`
		Quote string `json:"quote"`
	} `json:"asks"`
	Offers []struct {
		Tool  string `json:"tool"`
		Quote string `json:"quote"`
	} `json:"offers"`
	Confirms []confirmation `json:"confirms"`
	Facts    []facts.Fact   `json:"facts"`
}

// confirmation is the question whether a change should be made.
type confirmation struct {
	Tool      string `json:"tool"`
	Quote     string `json:"quote"`
	OrderID   string `json:"order_id"`
	PaymentID string `json:"payment_id"`
	SKU       string `json:"sku"`
	Amount    string `json:"amount"`
	Address   string `json:"address"`
}

// readingSchema is that of a reading.
var readingSchema = object(map[string]any{
	"asks":   list(map[string]any{"topic": enum(talk.Topics), "quote": textSchema}),
	"offers": list(map[string]any{"tool": enum(desk.ListChanges()), "quote": textSchema}),
	"confirms": list(map[string]any{"tool": enum(desk.ListChanges()), "quote": textSchema, "order_id": textSchema,
		"payment_id": textSchema, "sku": textSchema, "amount": textSchema, "address": textSchema}),
	"facts": list(map[string]any{"what": enum(facts.Whats), "value": textSchema}),
})

// maxSaid is the number of messages before the present one that the model is shown.
const maxSaid = 4

// Hear implements workflow.Customer. A message beside which something is stated does what is
// stated, and the model isn't asked: so an agent that states what it does depends on no model.
func (c *Customer) Hear(ctx context.Context, m *workflow.Message, to *episode.Exchange) error {
	to.Heard = m.Stated
	if s := m.Stated; m.Text == "" || len(s.Facts)+len(s.Asks)+len(s.Offers)+len(s.Confirms) > 0 {
		return nil
	}
	var before []string
	for _, said := range m.Said[max(0, len(m.Said)-maxSaid):] {
		before = append(before, text.ClipRunes(said, maxShown))
	}
	about := struct {
		Message  string   `json:"message"`
		Language string   `json:"language"`
		Before   []string `json:"before"`
	}{text.ClipRunes(m.Text, maxShown), m.Language, before}
	var read reading
	err := c.ask(ctx, hearing, "acts", readingSchema, about, to, func(answer string) error {
		var ok bool
		if read, ok = endpoint.ReadObject[reading](answer); !ok {
			return errNoObject
		}
		return nil
	})
	if err != nil {
		return c.fail(ctx, "hear", to)
	}
	k := check{message: m.Text, folded: fold(m.Text), values: facts.NewContext(m.Language, m.Now).NewMessage(m.Text)}
	k.take(&read)
	to.Heard, to.Counts.Dropped = k.heard, k.dropped
	c.dropped.Add(float64(k.dropped))
	return nil
}

// check compares what was read in a message with the message.
type check struct {
	message, folded string
	values          *facts.Message
	heard           talk.Heard
	dropped         int64
}

// fold is a text in which quotes are looked up regardless of case, diacritics and white space.
func fold(s string) string {
	return strings.Join(strings.Fields(text.Fold(text.NormaliseReply(s))), " ")
}

// minQuote is the minimum size of the letters and digits of a quote.
const minQuote = 4

// quotes reports whether a quote stands in the message.
func (k *check) quotes(quote string) bool {
	return len(text.LettersAndDigits(quote)) >= minQuote && strings.Contains(k.folded, fold(quote))
}

// states reports whether the message has the value of a fact.
func (k *check) states(f facts.Fact) bool {
	return f.IsStated() && k.values.States(facts.Wanted{What: f.What, Values: []string{f.Value}})
}

// take takes the acts that the message has, and counts the others. Repeated ones count for nothing.
func (k *check) take(r *reading) {
	for _, ask := range r.Asks {
		addOnce(k, &k.heard.Asks, ask.Topic, slices.Contains(talk.Topics, ask.Topic) && k.quotes(ask.Quote))
	}
	for _, offer := range r.Offers {
		addOnce(k, &k.heard.Offers, offer.Tool, desk.IsChange(offer.Tool) && k.quotes(offer.Quote))
	}
	for i := range r.Confirms {
		effect, ok := k.readChange(&r.Confirms[i])
		addOnce(k, &k.heard.Confirms, effect, ok && k.quotes(r.Confirms[i].Quote))
	}
	for _, fact := range r.Facts {
		addOnce(k, &k.heard.Facts, fact, len(k.heard.Facts) < facts.MaxStated && k.states(fact))
	}
}

// addOnce adds an act to a list that doesn't have it, if the message has it.
func addOnce[T comparable](k *check, to *[]T, act T, stands bool) {
	switch {
	case !stands:
		k.dropped++
	case !slices.Contains(*to, act):
		*to = append(*to, act)
	}
}

// readChange reads a change as an action with these arguments is read, and reports whether the
// message has all of them.
func (k *check) readChange(c *confirmation) (desk.Effect, bool) {
	if !desk.IsChange(c.Tool) {
		return desk.Effect{}, false
	}
	id := func(s string) string { return workflow.NormalizeID(strings.TrimSpace(s)) }
	args := desk.Args{"order_id": id(c.OrderID), "payment_id": id(c.PaymentID), "sku": id(c.SKU),
		"address": strings.TrimSpace(c.Address)}
	for _, name := range []string{"order_id", "payment_id", "sku"} {
		if value := args.Text(name); value != "" && !strings.Contains(strings.ToUpper(k.message), value) {
			return desk.Effect{}, false
		}
	}
	if c.Amount != "" {
		cents, ok := workflow.ParseCents(strings.TrimSpace(c.Amount))
		if !ok || !k.states(facts.Fact{What: "refund_amount", Value: c.Amount}) {
			return desk.Effect{}, false
		}
		args["amount"] = int64(cents)
	}
	// The change itself must have the same address, letter by letter.
	return desk.NewEffect(c.Tool, args).Call(), strings.Contains(k.message, args.Text("address"))
}
