package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// heuristicTicket is the heuristic for tickets. It searches the knowledge base, labels by words,
// decides by what is beyond an agent's authority and replies from a template with what it has read.
type heuristicTicket struct {
	articles []article
	stage    int
}

type article struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Body  string `json:"body"`
}

// ticketView is what the heuristic reads of an observation.
type ticketView struct {
	CustomerName   string    `json:"customer_name"`
	Subject        string    `json:"subject"`
	Description    string    `json:"description"`
	KnowledgeBase  []article `json:"knowledge_base"`
	AllowedActions []string  `json:"allowed_actions"`
	Attachments    []struct {
		Name    string `json:"name"`
		Content string `json:"content"`
	} `json:"attachments"`
	History []struct {
		Content string `json:"content"`
	} `json:"conversation_history"`
}

// maxQuery is the longest query, in bytes, that the heuristic sends.
const maxQuery = 390

// text is everything that came with the ticket, in lower case.
func (v *ticketView) text() string {
	var all strings.Builder
	all.WriteString(v.Subject + "\n" + v.Description)
	for _, a := range v.Attachments {
		all.WriteString("\n" + a.Content)
	}
	for _, m := range v.History {
		all.WriteString("\n" + m.Content)
	}
	return strings.ToLower(all.String())
}

// Act goes through the heuristic's stages: search, label, reply, decide. In ticket-classify it only
// labels.
func (c *heuristicTicket) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	var v ticketView
	if err := json.Unmarshal(turn.Observation, &v); err != nil {
		return nil, fmt.Errorf("reading the ticket: %w", err)
	}
	if !slices.Contains(v.AllowedActions, "respond") {
		return c.label(&v)
	}
	return c.handle(&v)
}

// handle takes the next stage. A reply or an escalation that isn't allowed any more, as in a queue,
// is passed over.
func (c *heuristicTicket) handle(v *ticketView) (json.RawMessage, error) {
	c.articles = append(c.articles, v.KnowledgeBase...)
	c.stage++
	if c.stage == 3 && !slices.Contains(v.AllowedActions, "respond") {
		c.stage++
	}
	switch c.stage {
	case 1:
		return action("search_knowledge_base", map[string]any{"query": shorten(v.Subject+" "+v.Description, maxQuery)})
	case 2:
		return c.label(v)
	case 3:
		return action("respond", map[string]any{"message": c.reply(v)})
	default:
		return c.decide(v)
	}
}

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

func (c *heuristicTicket) label(v *ticketView) (json.RawMessage, error) {
	text := v.text()
	return action("classify", map[string]any{"category": category(text), "priority": priority(text)})
}

// categoryWords are the beginnings of words that speak for a category.
func categoryWords() map[string][]string {
	return map[string][]string{
		"billing": {"invoice", "charge", "refund", "payment", "paid", "card", "fee", "bill", "price", "bank",
			"statement", "vat", "instalment", "overdraft", "seats", "receipt", "$"},
		"shipping": {
			"parcel", "deliver", "courier", "tracking", "shipment", "shipping", "address", "customs", "package",
			"signature", "signed", "locker", "depot", "redirect",
			"truck", "dock", "wrong house", "pallet", "carrier",
		},
		"technical": {
			"offline", "update", "firmware", "hub", "camera", "alert", "app ", "error", "sensor", "router", "log ",
			"reset", "red ring", "device", "siren", "unreachable", "software",
			"restart", "lock ", "api", "2fa", "battery",
		},
		"general": {"account", "e-mail", "email", "privacy", "my data", "feature", "compatible", "zigbee", "matter",
			"logo", "terms", "sharing", "police", "cancel", "newsletter", "question"},
	}
}

// category is the one with most words; a dangerous or dead device is technical whatever else the
// customer writes of.
func category(text string) string {
	if dangerous(text) {
		return "technical"
	}
	best, most := "general", 0
	words := categoryWords()
	for _, name := range []string{"general", "billing", "shipping", "technical"} {
		if n := count(text, words[name]...); n > most {
			best, most = name, n
		}
	}
	return best
}

func dangerous(text string) bool {
	return has(text, "opens by itself", "opened by itself", "open on its own", "unlocked without", "swollen",
		"swelling", "swell", "smoke", "smell of burning", "burning", "getting hot", "very hot", "sparks")
}

func fraudulent(text string) bool {
	return has(text, "not mine", "do not recognise", "don't recognise", "none of it me", "have not bought anything",
		"imitation", "forged", "isnt how i sign", "not my handwriting", "signed by someone else", "stolen", "hacked")
}

func dead(text string) bool {
	return has(text, "offline", "bricked", "dead", "unreachable", "no longer starts", "locked out",
		"nothing in the house", "whole house", "gone")
}

// urgentMinutes is the deadline, in minutes, up to which something is urgent.
const urgentMinutes = 240

// priority reads danger, deadlines and sums.
func priority(text string) string {
	minutes := number(minutesPattern, text)
	switch {
	case dangerous(text), has(text, "police", "emergency"), fraudulent(text) &&
		has(text, "just now", "still", "every ten minutes", "do not recognise", "none of it me"):
		return "urgent"
	case minutes > 0 && minutes <= urgentMinutes && !has(text, "late"):
		return "urgent"
	case dead(text), has(text, "tomorrow", "tonight"), has(text, "charge", "bill", "refund") && largest(text) > 200_00:
		return "high"
	case has(text, "late", "delay", "days", "wrong", "missing", "not moved", "twice", "broken", "useless"):
		return "medium"
	default:
		return "low"
	}
}

// authority is what the heuristic takes an agent's limits to be, in cents, where no article that it has
// found names another.
const (
	refundLimit      = 200_00
	replacementLimit = 150_00
	incidentDevices  = 5
)

// team is the team that must take the ticket, "" when an agent can settle it.
func (c *heuristicTicket) team(text string) string {
	sum := largest(text)
	switch {
	case dangerous(text):
		return "safety"
	case has(text, "police", "lawyer", "court", "press", "thesis", "logo"):
		return "legal"
	case fraudulent(text) && sum > 100:
		return "security"
	case has(text, "personal data", "gdpr", "my data"):
		return "privacy"
	case has(text, "invoice", "charge", "bill", "payment", "refund") && sum > c.limit("refund", refundLimit):
		return "finance"
	case has(text, "parcel", "deliver", "order", "pallet") && has(text, "wrong house", "wrong", "number", "missing",
		"lost") && sum > c.limit("replacement", replacementLimit):
		return "logistics"
	case number(devicesPattern, text) >= incidentDevices && has(text, "offline", "gone", "dead"):
		return "incident"
	case has(text, "4.8", "known issue") && c.found("KI-"):
		return "engineering"
	default:
		return ""
	}
}

// limit is the limit that an article about the act names, in cents.
func (c *heuristicTicket) limit(act string, otherwise int64) int64 {
	for _, a := range c.articles {
		for _, s := range sentencePattern.FindAllString(strings.ReplaceAll(a.Body, ".00", ""), -1) {
			if m := limitPattern.FindStringSubmatch(s); m != nil && strings.Contains(s, act) {
				return cents(m[1], m[2])
			}
		}
	}
	return otherwise
}

func (c *heuristicTicket) found(prefix string) bool {
	return slices.ContainsFunc(c.articles, func(a article) bool { return strings.HasPrefix(a.ID, prefix) })
}

func (c *heuristicTicket) decide(v *ticketView) (json.RawMessage, error) {
	if team := c.team(v.text()); team != "" && slices.Contains(v.AllowedActions, "escalate") {
		return action("escalate", map[string]any{"team": team, "reason": "This is beyond what an agent may decide."})
	}
	return action("resolve", nil)
}

// reply thanks, names what the ticket is about, says what happens and quotes what the knowledge
// base says of it.
func (c *heuristicTicket) reply(v *ticketView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Dear %s,\n\nthank you for writing to us. I am sorry for the trouble", firstName(v.CustomerName))
	if ids := findIDs(v.Subject + " " + v.Description); len(ids) > 0 {
		fmt.Fprintf(&b, " with %s", strings.Join(ids, " and "))
	}
	b.WriteString(" and I understand that you need a clear answer.\n\n")
	if team := c.team(v.text()); team != "" {
		fmt.Fprintf(&b, "I have passed your case to our %s team, and they will contact you about it. ", team)
	} else {
		b.WriteString("I can settle this for you here, and this is what you need to know. ")
	}
	for _, s := range c.relevant(v) {
		b.WriteString(s)
		b.WriteByte(' ')
	}
	b.WriteString("\n\nPlease answer to this message if anything is still open.\n\nKind regards,\nLarkfield Support")
	return b.String()
}

func firstName(name string) string {
	first, _, _ := strings.Cut(name, " ")
	return first
}

// quoted is the number of sentences that the heuristic takes over from articles.
const quoted = 3

// relevant are the sentences of the articles found that share most words with the ticket, those
// with a number first.
func (c *heuristicTicket) relevant(v *ticketView) []string {
	type candidate struct {
		text   string
		weight int
	}
	var all []candidate
	text := v.text()
	for _, a := range c.articles {
		for _, s := range sentences(a.Body) {
			n := 0
			for w := range strings.FieldsSeq(strings.ToLower(s)) {
				if w = strings.Trim(w, ".,:;()"); len(w) > 4 && strings.Contains(text, w) {
					n++
				}
			}
			if strings.ContainsAny(s, "0123456789") {
				n += 2
			}
			all = append(all, candidate{s, n})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.weight, a.weight) })
	best := make([]string, min(quoted, len(all)))
	for i := range best {
		best[i] = all[i].text
	}
	return best
}

// sentences are the sentences of an article that address a reader who isn't an agent.
func sentences(body string) []string {
	var found []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, s := range sentencePattern.FindAllString(line, -1) {
			s = strings.TrimSpace(s)
			if len(s) > 20 && !strings.Contains(strings.ToLower(s), "agent") {
				found = append(found, s)
			}
		}
	}
	return found
}
