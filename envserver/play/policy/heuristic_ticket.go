package policy

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// heuristicTicket is the heuristic for tickets. It searches the knowledge base, labels by words,
// decides by the limits of an agent's authority, and replies from a template with sentences of the
// articles.
type heuristicTicket struct {
	articles []article
	stage    int
}

// Act goes through the stages: search, label, reply, decide. In ticket-classify it only labels.
func (h *heuristicTicket) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := decodeObservation[ticketView](turn)
	switch {
	case err != nil:
		return nil, err
	case !v.allows("respond"):
		return h.labelTicket(&v)
	}
	return h.takeStage(&v)
}

// takeStage takes the next stage. It skips a reply that isn't allowed any more, as in a queue.
func (h *heuristicTicket) takeStage(v *ticketView) (json.RawMessage, error) {
	h.articles = append(h.articles, v.KnowledgeBase...)
	h.stage++
	if h.stage == 3 && !v.allows("respond") {
		h.stage++
	}
	switch h.stage {
	case 1:
		query := v.Subject + " " + v.Description
		query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
		return encodeAction("search_knowledge_base", map[string]any{"query": query})
	case 2:
		return h.labelTicket(v)
	case 3:
		return encodeAction("respond", map[string]any{"message": h.writeReply(v), "facts": h.stateFacts(v)})
	default:
		return h.endTicket(v)
	}
}

// maxQuery is the longest query, in bytes, that the heuristic sends.
const maxQuery = 390

func (h *heuristicTicket) labelTicket(v *ticketView) (json.RawMessage, error) {
	text := v.joinTexts()
	return encodeAction("classify", map[string]any{"category": chooseCategory(text), "priority": choosePriority(text)})
}

// wordsJSON lists the beginnings of words that indicate a category or a situation.
//
//go:embed heuristic.json
var wordsJSON []byte

var words = sync.OnceValue(func() map[string][]string {
	var lists map[string][]string
	if err := json.Unmarshal(wordsJSON, &lists); err != nil {
		panic(fmt.Sprintf("heuristic.json: %v", err))
	}
	return lists
})

// hasWordOf reports whether the text contains a word of a list.
func hasWordOf(text, list string) bool { return hasPhrase(text, words()[list]...) }

// chooseCategory returns the category with most words, but "technical" for a dangerous device.
func chooseCategory(text string) string {
	if hasWordOf(text, "dangerous") {
		return "technical"
	}
	best, most := "general", 0
	for _, name := range []string{"general", "billing", "shipping", "technical"} {
		if n := countPhrases(text, words()[name]...); n > most {
			best, most = name, n
		}
	}
	return best
}

// urgentMinutes is the longest deadline, in minutes, that is urgent.
const urgentMinutes = 240

// choosePriority derives the priority from danger, deadlines and amounts.
func choosePriority(text string) string {
	switch {
	case hasWordOf(text, "dangerous"), hasPhrase(text, "police", "emergency"),
		hasWordOf(text, "fraudulent") && hasWordOf(text, "ongoing"),
		!hasPhrase(text, "late") && isSoon(text):
		return "urgent"
	case hasWordOf(text, "dead"), hasPhrase(text, "tomorrow", "tonight"),
		hasPhrase(text, "charge", "bill", "refund") && findLargestAmount(text) > 200_00:
		return "high"
	case hasPhrase(text, "late", "delay", "days", "wrong", "missing", "not moved", "twice", "broken", "useless"):
		return "medium"
	default:
		return "low"
	}
}

// isSoon reports whether the first time in minutes that the text states is urgent.
func isSoon(text string) bool {
	if !strings.Contains(text, "min") { // a pattern that begins with digits is slow
		return false
	}
	minutes := findNumber(minutesPattern, text)
	return minutes > 0 && minutes <= urgentMinutes
}

// The limits of an agent's authority, in cents, unless a found article states others.
const (
	refundLimit      = 200_00
	replacementLimit = 150_00
	incidentDevices  = 5
)

// chooseTeam returns the team that must take over the ticket, or "" if an agent can resolve it.
func (h *heuristicTicket) chooseTeam(text string) string {
	sum := findLargestAmount(text)
	switch {
	case hasWordOf(text, "dangerous"):
		return "safety"
	case hasPhrase(text, "police", "lawyer", "court", "press", "thesis", "logo"):
		return "legal"
	case hasWordOf(text, "fraudulent") && sum > 100:
		return "security"
	case hasPhrase(text, "personal data", "gdpr", "my data"):
		return "privacy"
	case hasPhrase(text, "invoice", "charge", "bill", "payment", "refund") && sum > h.findLimit("refund", refundLimit):
		return "finance"
	case hasPhrase(text, "parcel", "deliver", "order", "pallet") &&
		hasPhrase(text, "wrong house", "wrong", "number", "missing", "lost") &&
		sum > h.findLimit("replacement", replacementLimit):
		return "logistics"
	case hasPhrase(text, "offline", "gone", "dead") && findNumber(devicesPattern, text) >= incidentDevices:
		return "incident"
	case hasPhrase(text, "4.8", "known issue") && h.hasFound("KI-"):
		return "engineering"
	default:
		return ""
	}
}

// findLimit returns the limit, in cents, that an article about the act states.
func (h *heuristicTicket) findLimit(act string, otherwise int64) int64 {
	for _, a := range h.articles {
		for s := range splitSentences(strings.ReplaceAll(a.Body, ".00", "")) {
			if !strings.Contains(s, act) {
				continue
			}
			if m := limitPattern.FindStringSubmatch(s); m != nil {
				return parseCents(m[1], m[2])
			}
		}
	}
	return otherwise
}

func (h *heuristicTicket) hasFound(prefix string) bool {
	return slices.ContainsFunc(h.articles, func(a article) bool { return strings.HasPrefix(a.ID, prefix) })
}

func (h *heuristicTicket) endTicket(v *ticketView) (json.RawMessage, error) {
	if team := h.chooseTeam(v.joinTexts()); team != "" && v.allows("escalate") {
		return encodeAction("escalate",
			map[string]any{"team": team, "reason": "This is beyond what an agent may decide."})
	}
	return encodeAction("resolve", nil)
}

// timeFrame matches a time frame in an article.
var timeFrame = regexp.MustCompile(`\b\d+ (business days|hours|minutes)\b`)

// stateFacts states the decision and, with a team, the first time frame of what the reply quotes.
func (h *heuristicTicket) stateFacts(v *ticketView) []facts.Fact {
	text := v.joinTexts()
	team := h.chooseTeam(text)
	if team == "" {
		return []facts.Fact{{What: "next_step", Value: "explained"}}
	}
	stated := statedTeam(team)
	if by := timeFrame.FindString(strings.Join(h.quoteArticles(text), " ")); by != "" {
		stated = append(stated, facts.Fact{What: "answer_by", Value: by})
	}
	return stated
}

// writeReply thanks, names the ticket's ids, states the decision and quotes the knowledge base.
func (h *heuristicTicket) writeReply(v *ticketView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Dear %s,\n\nthank you for writing to us. I am sorry for the trouble", firstName(v.CustomerName))
	if ids := findIDs(v.Subject + " " + v.Description); len(ids) > 0 {
		fmt.Fprintf(&b, " with %s", strings.Join(ids, " and "))
	}
	b.WriteString(" and I understand that you need a clear answer.\n\n")
	text := v.joinTexts()
	if team := h.chooseTeam(text); team != "" {
		fmt.Fprintf(&b, "I have passed your case to our %s team, and they will contact you about it. ", team)
	} else {
		b.WriteString("I can settle this for you here, and this is what you need to know. ")
	}
	for _, s := range h.quoteArticles(text) {
		b.WriteString(s + " ")
	}
	b.WriteString("\n\nPlease answer to this message if anything is still open.\n\nKind regards,\nLarkfield Support")
	return b.String()
}

func firstName(name string) string {
	first, _, _ := strings.Cut(name, " ")
	return first
}

// quoted is the number of sentences that the heuristic quotes from articles.
const quoted = 3

// quoteArticles returns the sentences of the articles that share most words with the ticket's text;
// a number counts as two words.
func (h *heuristicTicket) quoteArticles(text string) []string {
	type candidate struct {
		text   string
		weight int
	}
	var all []candidate
	for _, a := range h.articles {
		for _, s := range readSentences(a.Body) {
			n := s.numbers
			for _, w := range s.words {
				if strings.Contains(text, w) {
					n++
				}
			}
			all = append(all, candidate{s.text, n})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.weight, a.weight) })
	best := make([]string, min(quoted, len(all)))
	for i := range best {
		best[i] = all[i].text
	}
	return best
}

// sentence is a sentence of an article.
type sentence struct {
	text  string
	words []string // those of five letters or more, in lower case
	// numbers is the weight of the sentence's numbers.
	numbers int
}

// sentences are those of the articles that were read last, by the article's text. Episodes find the
// same articles.
var sentences, _ = lru.New[string, []sentence](512) // an error is only for a size of 0

// readSentences returns the sentences of an article that don't mention agents.
func readSentences(body string) []sentence {
	if known, ok := sentences.Get(body); ok {
		return known
	}
	var found []sentence
	for _, s := range listSentences(body) {
		read := sentence{text: s}
		for w := range strings.FieldsSeq(strings.ToLower(s)) {
			if w = strings.Trim(w, ".,:;()"); len(w) > 4 {
				read.words = append(read.words, w)
			}
		}
		if strings.ContainsAny(s, "0123456789") {
			read.numbers = 2
		}
		found = append(found, read)
	}
	sentences.Add(body, found)
	return found
}

// listSentences lists the sentences of an article that don't mention agents.
func listSentences(body string) (found []string) {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for s := range splitSentences(line) {
			s = strings.TrimSpace(s)
			if len(s) > 20 && !strings.Contains(strings.ToLower(s), "agent") {
				found = append(found, s)
			}
		}
	}
	return found
}

// heuristicQueue is the heuristic for queues: it reads every ticket, orders them by the derived
// priority, and handles each like the heuristic for one ticket.
type heuristicQueue struct {
	read     []readTicket
	handlers map[string]*heuristicTicket
}

// readTicket is a ticket that was read, with the rank of its priority.
type readTicket struct {
	id   string
	rank int
}

// Act selects a ticket that hasn't been read, or handles the most urgent open one.
func (h *heuristicQueue) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := observedQueue(turn)
	if err != nil {
		return nil, err
	}
	h.noteTicket(&v)
	for _, q := range v.Queue {
		if h.handlers[q.TicketID] == nil {
			return selectTicket(q.TicketID)
		}
	}
	next := h.nextTicket(&v)
	if next != v.TicketID {
		return selectTicket(next)
	}
	return h.handlers[next].takeStage(&v)
}

func (h *heuristicQueue) noteTicket(v *ticketView) {
	if h.handlers == nil {
		h.handlers = map[string]*heuristicTicket{}
	}
	if h.handlers[v.TicketID] == nil {
		h.handlers[v.TicketID] = &heuristicTicket{}
		h.read = append(h.read,
			readTicket{v.TicketID, slices.Index(scenarios.Priorities, choosePriority(v.joinTexts()))})
		slices.SortStableFunc(h.read, func(a, b readTicket) int { return cmp.Compare(b.rank, a.rank) })
	}
}

// nextTicket returns the most urgent open ticket.
func (h *heuristicQueue) nextTicket(v *ticketView) string {
	for _, r := range h.read {
		if slices.ContainsFunc(v.Queue, func(q queuedTicket) bool { return q.TicketID == r.id && !q.closed() }) {
			return r.id
		}
	}
	return v.TicketID
}
