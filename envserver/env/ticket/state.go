package ticket

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// searchMinutes is the time of a search under pressure. In a queue a search takes no time, because
// the best schedules need none.
const searchMinutes = 1

// state is an episode: one ticket, or the tickets of a queue. An action changes a clone of it.
type state struct {
	task *task
	// scenario is the id of the ticket or the queue, category the category of its score.
	scenario, category string
	mode               episode.RewardMode
	// pressure makes every action take simulated minutes in a task without a clock.
	pressure bool
	reader   messageReader
	library  *library

	tickets []ticketState
	// at is the index of the selected ticket.
	at int
	// optimum has the weighted score that earns the full score.
	optimum queue.Optimum

	step, invalid int
	feedback      string
	// found are the articles that the last action found, nil if it wasn't a search.
	found []Article
	// clock counts the simulated minutes, slots the remaining escalations of a queue.
	clock, slots int

	// outcome is "" until the episode has ended.
	outcome score.Outcome
	// paid is the part of the episode's score given as reward so far, in milli-points.
	paid int64
}

func newState(c *choice, tickets []*scenarios.DrawnTicket, opts episode.Options) *state {
	s := &state{
		task: c.task, scenario: c.scenario, category: tickets[0].Gold.Category, mode: opts.RewardMode,
		pressure: opts.Pressure && c.task.Replies && !c.task.queue, reader: c.reader, library: c.library,
		slots: queue.Slots, tickets: make([]ticketState, len(tickets)), feedback: "A ticket has come in.",
	}
	for i, t := range tickets {
		s.tickets[i] = newTicketState(t, ticketID(opts.IDKey, opts.Seed, i))
	}
	if s.task.queue {
		s.category = categoryQueue
		s.feedback = "Five tickets have come in. What is left of your time and of your escalations is shown " +
			"beside them."
	}
	s.optimum = s.findOptimum(c.optima)
	return s
}

// findOptimum returns what the best schedules of a queue earn, otherwise the maximum of the task.
func (s *state) findOptimum(optima *queue.Optima) queue.Optimum {
	if !s.task.queue {
		return queue.Optimum{WeightedScore: s.task.offered * queue.InTime}
	}
	var cases [queue.Size]queue.Case
	for i := range cases {
		cases[i] = queue.CaseOf(&s.tickets[i].ticket.Served)
	}
	return optima.Of(cases)
}

// ticketID derives the wire id of the ticket at a place from the key and the seed alone.
func ticketID(key string, seed int64, place int) string {
	if place > 0 {
		seed = score.EpisodeSeed(seed, tasks.QueueManagement, "", place)
	}
	return episode.OpaqueID("T", key, seed)
}

func (s *state) selectedTicket() *ticketState { return &s.tickets[s.at] }

func (s *state) isDense() bool { return s.mode == episode.Dense }

// isTimed reports whether actions take simulated minutes.
func (s *state) isTimed() bool { return s.pressure || s.task.queue }

func (s *state) minutesLeft() int { return queue.Minutes - s.clock }

// allowedActions returns the actions that can still change something. The list is never changed.
func (s *state) allowedActions() []string {
	if s.outcome != "" {
		return []string{}
	}
	if !slices.ContainsFunc(s.task.actions, func(a string) bool { return !s.isPossible(a) }) {
		return s.task.actions
	}
	allowed := make([]string, 0, len(s.task.actions))
	for _, a := range s.task.actions {
		if s.isPossible(a) {
			allowed = append(allowed, a)
		}
	}
	return allowed
}

func (s *state) isPossible(action string) bool {
	t := s.selectedTicket()
	switch {
	case action == selectTicket:
		return slices.ContainsFunc(s.tickets, func(o ticketState) bool { return o.isOpen() && o.id != t.id })
	case !t.isOpen():
		return false
	case action == classify:
		return !s.isDense() || !t.isLabelled()
	case action == respond && s.task.queue:
		return s.minutesLeft() >= queue.Reply.Minutes()
	case action == escalate && s.task.queue:
		return s.slots > 0 && s.minutesLeft() >= queue.Escalate.Minutes()
	default:
		return true
	}
}

// applyAction plays an action of the schema. Every action uses a step, even if the rules refuse it.
// The error comes from the customer's answer.
func (s *state) applyAction(a episode.Action) error {
	s.step++
	if refused := s.explainRefusal(a); refused != "" {
		s.feedback = "Nothing was done: " + refused
	} else {
		s.clock += s.countMinutes(a)
		t := s.selectedTicket()
		if err := s.playAction(a); err != nil {
			return err
		}
		if s.task.scale == offline.Name && a.Get("message") != "" && !facts.AnyStated(t.stated) {
			s.feedback += " " + facts.NoneStated
		}
	}
	switch {
	case s.outcome != "":
	case s.task.queue && s.allClosed():
		s.outcome = score.Scored
	case s.task.queue && s.minutesLeft() == 0:
		s.outcome = score.Scored
		s.feedback += " The minutes have run out."
	case s.step >= s.task.MaxSteps:
		s.outcome = score.Failed
		s.feedback += " The steps have run out."
	}
	return nil
}

// explainRefusal returns the reason why the rules don't permit an action, or "". A refused action
// takes no minutes.
func (s *state) explainRefusal(a episode.Action) string {
	t := s.selectedTicket()
	switch {
	case !slices.Contains(s.task.actions, a.Type):
		return fmt.Sprintf("%s is no action of this task. Use one of: %s.", a.Type,
			strings.Join(s.allowedActions(), ", "))
	case a.Type == selectTicket:
		if s.findTicket(a.Get("ticket_id")) < 0 {
			return "the queue has no ticket of this id."
		}
		return ""
	case !t.isOpen():
		return fmt.Sprintf("ticket %s is %s. Select another one.", t.id, t.status)
	case s.isDense() && t.repeatsLabel(a):
		return "category and priority can be set once each, and what you sent is set already."
	case s.task.queue && isEscalation(a) && s.slots == 0:
		return "no escalation is left in this shift."
	case s.task.queue && s.countMinutes(a) > s.minutesLeft():
		return fmt.Sprintf("this takes %d minutes and %d are left.", s.countMinutes(a), s.minutesLeft())
	}
	return ""
}

// repeatsLabel reports whether the action sets a label that is already set.
func (t *ticketState) repeatsLabel(a episode.Action) bool {
	return a.Get("category") != "" && t.category != "" || a.Get("priority") != "" && t.priority != ""
}

func isEscalation(a episode.Action) bool { return a.Type == escalate || a.Get("decision") == escalate }

func isResolution(a episode.Action) bool { return a.Type == resolve || a.Get("decision") == resolve }

// countMinutes adds up the minutes of the parts of an action.
func (s *state) countMinutes(a episode.Action) int {
	if !s.isTimed() {
		return 0
	}
	total := 0
	for kind, done := range [...]bool{
		queue.Category: a.Get("category") != "", queue.Priority: a.Get("priority") != "",
		queue.Reply: a.Get("message") != "", queue.Resolve: isResolution(a), queue.Escalate: isEscalation(a),
	} {
		if done {
			total += queue.Kind(kind).Minutes()
		}
	}
	if a.Type == search && !s.task.queue {
		total += searchMinutes
	}
	return total
}

// findTicket returns the index of the ticket with the id, or -1.
func (s *state) findTicket(id string) int {
	return slices.IndexFunc(s.tickets, func(t ticketState) bool { return t.id == id })
}

func (s *state) allClosed() bool {
	return !slices.ContainsFunc(s.tickets, func(t ticketState) bool { return t.isOpen() })
}

func (s *state) playAction(a episode.Action) error {
	t := s.selectedTicket()
	switch a.Type {
	case classify:
		s.setLabels(t, a)
	case search:
		s.searchArticles(t, a.Get("query"))
	case respond:
		return s.sendReply(t, a)
	case resolve:
		t.addReply(a, s.clock)
		s.closeTicket(t, statusResolved)
	case escalate:
		t.addReply(a, s.clock)
		s.handOver(t, a.Get("team"))
	case submit:
		s.submitAnswer(t, a)
	case selectTicket:
		s.at = s.findTicket(a.Get("ticket_id"))
		t = s.selectedTicket()
		s.feedback = fmt.Sprintf("This is ticket %s, %s.", t.id, strings.ReplaceAll(t.status, "_", " "))
	}
	return nil
}

func (s *state) setLabels(t *ticketState, a episode.Action) {
	t.setLabels(a)
	t.markInProgress()
	const unset = "not set"
	s.feedback = "Category: " + cmp.Or(t.category, unset) + ". Priority: " + cmp.Or(t.priority, unset) + "."
	if !s.task.Replies && t.isLabelled() {
		s.outcome = score.Scored
	}
}

func (s *state) searchArticles(t *ticketState, query string) {
	t.markInProgress()
	if t.pages == nil {
		t.pages = s.library.listPages(t.ticket.Articles)
	}
	s.found = findArticles(t.pages, query)
	switch len(s.found) {
	case 0:
		s.feedback = "The knowledge base has no article with these words."
	case 1:
		s.feedback = "The knowledge base has 1 matching article."
	default:
		s.feedback = fmt.Sprintf("The knowledge base has %d matching articles.", len(s.found))
	}
}

func (s *state) sendReply(t *ticketState, a episode.Action) error {
	first := t.answered == queue.Never
	t.addReply(a, s.clock)
	answer, err := t.customer.answerMessage(s.reader, t, first && s.isTimed() && s.clock > patience, s.isDense())
	if err != nil {
		return err
	}
	if answer == "" {
		t.status = statusPending
		s.feedback = "Your reply was sent; the customer has not answered yet. Resolve or escalate the ticket to end it."
		return nil
	}
	t.addMessage(Message{Role: "customer", Content: answer})
	t.status = statusInProgress
	s.feedback = "Your reply was sent, and the customer has answered. Reply again, or resolve or escalate the ticket " +
		"to end it."
	return nil
}

// closeTicket closes a ticket; in a queue the episode continues with the others.
func (s *state) closeTicket(t *ticketState, status string) {
	t.status = status
	s.feedback = "The ticket is " + status + "."
	if !s.task.queue {
		s.outcome = score.Scored
	}
}

func (s *state) handOver(t *ticketState, team string) {
	t.team = episode.TeamName(team)
	s.slots--
	s.closeTicket(t, statusEscalated)
}

func (s *state) submitAnswer(t *ticketState, a episode.Action) {
	t.setLabels(a)
	t.markInProgress()
	s.feedback = "Your answer was taken."
	if !s.task.queue {
		s.outcome = score.Scored
	}
	if !s.task.Replies {
		return
	}
	t.addReply(a, s.clock)
	switch {
	case isResolution(a):
		s.closeTicket(t, statusResolved)
	case isEscalation(a):
		s.handOver(t, a.Get("team"))
	case s.task.queue:
		s.feedback = "Your answer was taken; the ticket stays open, for you did not decide to resolve or to " +
			"escalate it."
	}
}
