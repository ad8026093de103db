package policy

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
	"github.com/csenv/csenv/tasks"
)

// heuristic is an agent of rules that goes by words and amounts: it looks up what it can, labels
// and decides by words of the customer's text, and states what the records say. It understands no
// policy.
type heuristic struct {
	// stages are the next stages of the plan by ticket, and articles what the last search found.
	stages   map[string]int
	articles []article

	// The other fields are of workflows: the kind of their tasks, whether the order was asked for,
	// the next stage, the order's id, the last call, a payment that may be refunded, and what to
	// state.
	kind            desk.TaskKinds
	asked           bool
	stage           int
	order, captured string
	last            json.RawMessage
	stated          []facts.Fact
}

func newHeuristic(task string) *heuristic {
	known, _ := tasks.Find(task)
	return &heuristic{kind: workflow.KindOf(&known), stages: map[string]int{}}
}

// Act takes the next action of a fixed plan, for a queue of the most urgent ticket by its subject.
func (h *heuristic) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	if turn.Environment == tasks.Workflow {
		return h.takeWorkflowAction(turn)
	}
	v, err := decodeObservation[ticketView](turn)
	if err != nil {
		return nil, err
	}
	if next := findMostUrgent(&v); next != v.TicketID {
		return selectTicket(next)
	}
	return h.takeTicketAction(&v)
}

// findMostUrgent returns the open ticket that is the most urgent by its subject, and the selected
// one outside queues.
func findMostUrgent(v *ticketView) string {
	next, most := v.TicketID, -1
	for _, q := range v.Queue {
		urgency := slices.Index(scenarios.Priorities, chooseByWords("priority", splitWords(q.Subject), "low"))
		if !q.isClosed() && urgency > most {
			next, most = q.TicketID, urgency
		}
	}
	return next
}

// takeTicketAction searches, labels, replies and decides, as far as each is allowed.
func (h *heuristic) takeTicketAction(v *ticketView) (json.RawMessage, error) {
	if len(v.KnowledgeBase) > 0 {
		h.articles = v.KnowledgeBase
	}
	text := v.joinTexts()
	team := chooseTeam(text)
	end, members := "resolve", map[string]any(nil)
	if team != "" && v.allows("escalate") {
		end, members = "escalate", map[string]any{"team": team, "reason": "This is beyond what an agent may decide."}
	}
	plan := []string{"search_knowledge_base", "classify", "respond"}
	for stage := h.stages[v.TicketID]; stage < len(plan); stage++ {
		if !v.allows(plan[stage]) || plan[stage] == "search_knowledge_base" && !v.allows("respond") {
			continue // articles are for the reply
		}
		h.stages[v.TicketID] = stage + 1
		switch plan[stage] {
		case "search_knowledge_base":
			query := v.Subject + " " + v.Description
			members = map[string]any{"query": strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")}
		case "classify":
			members = map[string]any{"category": chooseByWords("category", text, "general"),
				"priority": choosePriority(text)}
		default:
			quoted := quoteArticles(h.articles, text)
			members = map[string]any{"facts": stateTicket(team, quoted),
				"message": writeReply(v.CustomerName, findIDs(v.Subject+" "+v.Description), team, quoted)}
		}
		return encodeAction(plan[stage], members)
	}
	return encodeAction(end, members)
}

// maxQuery is the longest query, in bytes, that the heuristic sends.
const maxQuery = 390

// timeFrame matches a time frame in an article.
var timeFrame = regexp.MustCompile(`\b\d+ (business days|hours|minutes)\b`)

// stateTicket states the decision, and with a team the first time frame of what the reply quotes.
func stateTicket(team string, quoted []string) []facts.Fact {
	if team == "" {
		return []facts.Fact{{What: "next_step", Value: "explained"}}
	}
	stated := []facts.Fact{{What: "team", Value: team}}
	if by := timeFrame.FindString(strings.Join(quoted, " ")); by != "" {
		stated = append(stated, facts.Fact{What: "answer_by", Value: by})
	}
	return stated
}

// writeReply thanks, names the ids, says what is done, and adds the sentences.
func writeReply(name string, ids []string, team string, sentences []string) string {
	first, _, _ := strings.Cut(name, " ")
	decision := "I can settle this for you here, and this is what you need to know."
	if team != "" {
		decision = "I have passed your case to our " + team + " team, and they will contact you about it."
	}
	return fmt.Sprintf("Dear %s,\n\nthank you for your message about %s. %s %s\n\nKind regards,\nLarkfield Support",
		first,
		cmp.Or(strings.Join(ids, " and "), "this"), decision, strings.Join(sentences, " "))
}

// takeWorkflowAction asks for the order, looks up, refunds or hands over, and replies. It repeats a
// failed call once.
func (h *heuristic) takeWorkflowAction(turn Turn) (json.RawMessage, error) {
	v, err := decodeObservation[workflowView](turn)
	if err != nil {
		return nil, err
	}
	if r := v.LastResult; r != nil {
		if failed := h.last; !r.OK && failed != nil {
			h.last = nil
			return failed, nil
		}
		h.readResult(r)
	}
	if ids := findIDs(v.UserQuery); h.order == "" && len(ids) > 0 {
		h.order = ids[0]
	}
	h.last, err = h.nextCall(&v)
	return h.last, err
}

// lookUps are the tools that the heuristic calls before it decides.
var lookUps = []string{desk.CheckOrder, desk.CheckPayment, desk.LookUpCustomer, desk.LookUpPolicy}

func (h *heuristic) nextCall(v *workflowView) (json.RawMessage, error) {
	if h.order == "" && !h.asked {
		h.asked = true
		args := map[string]any{"message": "Could you tell me the number of your order, please?"}
		switch h.kind {
		case desk.Cases:
			return encodeCall(desk.AskCustomer, args)
		case desk.Talks:
			args["asks"] = []string{talk.AboutOrder}
			return encodeCall(desk.Tell, args)
		case desk.Written:
		}
		return encodeCall(desk.RespondUser, args)
	}
	text, args := splitWords(v.UserQuery), map[string]any{}
	if h.order != "" {
		args["order_id"] = h.order
	}
	for h.stage < len(lookUps) {
		tool := desk.FindTool(lookUps[h.stage])
		h.stage++
		switch {
		case !tool.In(h.kind), tool.Args[0] == "order_id" && h.order == "":
		case tool.Name == desk.LookUpPolicy:
			return encodeCall(tool.Name, map[string]any{"topic": chooseByWords("topic", text, "money")})
		default:
			return encodeCall(tool.Name, args)
		}
	}
	team := chooseTeam(text + "$" + h.captured)
	if h.stage == len(lookUps) {
		h.stage++
		switch {
		case team != "":
			h.stateFact("team", team)
			args["team"] = team
			return encodeCall(desk.Escalating, args)
		case h.captured != "" && chooseByWords("refund", text, "") != "":
			h.stateFact("refund_amount", "$"+h.captured)
			args["amount"] = json.Number(h.captured)
			return encodeCall(desk.Refunding, args)
		}
	}
	return encodeCall(desk.RespondUser, map[string]any{"facts": h.stated[:min(len(h.stated), facts.MaxStated)],
		"message": writeReply(v.CustomerName, []string{h.order}, team, describeFacts(h.stated))})
}

// readResult notes the order's id, and states what the records say.
func (h *heuristic) readResult(r *toolResult) {
	if ids := findIDs(r.Answer); h.order == "" && len(ids) > 0 {
		h.order = ids[0]
	}
	if o := r.Order; o != nil {
		h.stateFact("carrier", o.Carrier)
		h.stateFact("reference", o.Tracking)
		if o.Delivered != nil {
			h.stateFact("delivered_on", o.Delivered.Format("January 2, 2006"))
		}
	}
	for _, p := range r.Payments {
		if p.Status == "captured" {
			h.captured = p.Amount.String()
		}
	}
	for _, refund := range r.Refunds {
		h.captured = "" // it is refunded
		h.stateFact("refund_amount", "$"+refund.Amount.String())
	}
}

func (h *heuristic) stateFact(what, value string) {
	if value != "" {
		h.stated = append(h.stated, facts.Fact{What: what, Value: value})
	}
}

func describeFacts(stated []facts.Fact) []string {
	sentences := make([]string, len(stated))
	for i, f := range stated {
		sentences[i] = fmt.Sprintf("%s: %s.", strings.ReplaceAll(f.What, "_", " "), f.Value)
	}
	return sentences
}

// rulesJSON lists, for each decision, the values and the beginnings of words that speak for them.
//
//go:embed heuristic.json
var rulesJSON []byte

type wordRule struct {
	Value string
	Words []string
}

var rules = sync.OnceValue(func() map[string][]wordRule {
	var lists map[string][]wordRule
	if err := json.Unmarshal(rulesJSON, &lists); err != nil {
		panic(fmt.Sprintf("heuristic.json: %v", err))
	}
	return lists
})

// splitWords returns the text in lower case, with a space before each word.
func splitWords(text string) string {
	return " " + strings.Map(func(r rune) rune {
		if strings.ContainsRune("\n\",:;()", r) {
			return ' '
		}
		return unicode.ToLower(r)
	}, text)
}

// chooseByWords returns the value for which most words of the text speak, the first of several, or
// the default. The text comes from splitWords.
func chooseByWords(decision, text, otherwise string) string {
	best, most := otherwise, 0
	for _, rule := range rules()[decision] {
		n := 0
		for _, word := range rule.Words {
			if strings.Contains(text, " "+word) {
				n++
			}
		}
		if n > most {
			best, most = rule.Value, n
		}
	}
	return best
}

// refundLimit is the largest sum, in cents, about which an agent may decide.
const refundLimit = 200_00

func chooseTeam(text string) string {
	if team := chooseByWords("team", text, ""); team != "" || findLargestAmount(text) <= refundLimit {
		return team
	}
	return "finance"
}

func choosePriority(text string) string {
	priority := chooseByWords("priority", text, "low")
	if priority != "urgent" && findLargestAmount(text) > refundLimit {
		return "high"
	}
	return priority
}

// quoteArticles returns the three sentences for customers that share most words with the ticket's
// text; a number counts as two words.
func quoteArticles(articles []article, text string) []string {
	asked := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		asked[strings.Trim(w, ".!?")] = len(w) > 4
	}
	var found []string
	weights := map[string]int{}
	for _, a := range articles {
		for s := range strings.SplitAfterSeq(strings.ReplaceAll(a.Body, "\n", ". "), ". ") {
			s = strings.TrimSpace(s)
			if len(s) <= 20 || s[0] == '#' || strings.Contains(strings.ToLower(s), "agent") {
				continue
			}
			found = append(found, s)
			for w := range strings.FieldsSeq(splitWords(s)) {
				if asked[strings.Trim(w, ".!?")] {
					weights[s]++
				}
			}
			if strings.ContainsAny(s, "0123456789") {
				weights[s] += 2
			}
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(weights[b], weights[a]) })
	return found[:min(3, len(found))]
}

// The patterns of the values that the heuristic reads.
var (
	idPattern     = regexp.MustCompile(`\b[A-Z]{2,4}-?\d{4,}\b`)
	amountPattern = regexp.MustCompile(`\$\s?(\d{1,3}(?:,\d{3})*|\d+)(?:\.(\d{2}))?`)
)

// findIDs lists the order, invoice, payment and tracking numbers in the text, without duplicates.
func findIDs(text string) []string {
	ids := idPattern.FindAllString(text, -1)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// findLargestAmount returns the largest dollar amount in the text, in cents, or 0.
func findLargestAmount(text string) int64 {
	var largest int64
	for _, m := range amountPattern.FindAllStringSubmatch(text, -1) {
		cents, _ := strconv.ParseInt(strings.ReplaceAll(m[1], ",", "")+cmp.Or(m[2], "00"), 10, 64)
		largest = max(largest, cents)
	}
	return largest
}
