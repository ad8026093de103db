package ticket

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// searchMinutes is what a search takes under pressure. In a queue it takes no time, for the
// schedules that it is measured by need none.
const searchMinutes = 1

// desk is the state of an episode: one ticket, or those of a queue. It changes only by apply, on a
// clone.
type desk struct {
	task *task
	// scenario is the id of the ticket or the queue, category what its score is filed under.
	scenario, category string
	mode               episode.RewardMode
	// pressure has every action take simulated minutes where the task doesn't have that anyway.
	pressure bool
	ears     ears

	// matters are the tickets, at is the selected one.
	matters []matter
	at      int
	// par is the worth that earns the full score: of the tickets' points, see worth.
	par int64

	step     int
	invalid  int
	feedback string
	found    []scenarios.Article
	// clock counts the simulated minutes, slots the escalations that are left in a queue.
	clock, slots int

	// outcome is "" until the episode has ended.
	outcome score.Outcome
	// paid is the part of the episode's score given as reward so far, in milli-points.
	paid int64
}

// newDesk begins an episode on the tickets.
func newDesk(c *choice, tickets []*scenarios.Ticket, opts episode.Options) *desk {
	d := &desk{
		task: c.task, scenario: c.scenario, category: categoryQueue, mode: opts.RewardMode, pressure: opts.Pressure &&
			c.task.reply && !c.task.queue, ears: c.ears,
		matters: make([]matter, len(tickets)), slots: queue.Slots,
	}
	for i, t := range tickets {
		d.matters[i] = newMatter(t, ticketID(opts.Seed, i))
	}
	d.feedback = "A ticket has come in."
	if !d.task.queue {
		d.category = tickets[0].Gold.Category
	} else {
		d.feedback = "Five tickets have come in. What is left of your time and of your escalations is shown beside them."
	}
	d.par = d.fullWorth(c.pars)
	return d
}

// ticketID is the id on the wire of the ticket at a place, drawn from the seed alone.
func ticketID(seed int64, place int) string {
	if place > 0 {
		seed = score.EpisodeSeed(seed, queue.Task, "", place)
	}
	return episode.OpaqueID("T", seed)
}

// clone is the desk that the next action is played on. The two may share what has been written,
// which never changes; only one of them is ever gone on with.
func (d *desk) clone() *desk {
	c := *d
	c.matters = slices.Clone(d.matters)
	c.found = nil
	return &c
}

// selected is the ticket that actions are about.
func (d *desk) selected() *matter { return &d.matters[d.at] }

func (d *desk) errored() bool { return d.outcome == score.Errored }

func (d *desk) dense() bool { return d.mode == episode.Dense }

// timed reports whether actions take simulated minutes.
func (d *desk) timed() bool { return d.pressure || d.task.queue }

func (d *desk) minutesLeft() int { return queue.Minutes - d.clock }

// allowed are the actions that can still change something.
func (d *desk) allowed() []string {
	allowed := []string{}
	if d.outcome != "" {
		return allowed
	}
	for _, a := range d.task.actions {
		if d.possible(a) {
			allowed = append(allowed, a)
		}
	}
	return allowed
}

// possible reports whether an action of the type, in its shortest form, can change something.
func (d *desk) possible(action string) bool {
	m := d.selected()
	switch {
	case action == selectTicket:
		return slices.ContainsFunc(d.matters, func(other matter) bool { return other.open() && other.id != m.id })
	case !m.open():
		return false
	case action == classify:
		return !d.dense() || m.category == "" || m.priority == ""
	case action == respond && d.task.queue:
		return d.minutesLeft() >= queue.Reply.Minutes()
	case action == escalate && d.task.queue:
		return d.slots > 0 && d.minutesLeft() >= queue.Escalate.Minutes()
	default:
		return true
	}
}

// apply plays an action of the schema. Every action uses up a step, also one that the rules refuse.
func (d *desk) apply(a episode.Action) {
	d.step++
	if refused := d.refusal(a); refused != "" {
		d.feedback = "Nothing was done: " + refused
	} else {
		d.clock += d.minutes(a)
		d.play(a)
	}
	switch {
	case d.outcome != "":
	case d.task.queue && d.allClosed():
		d.outcome = score.Scored
	case d.task.queue && d.minutesLeft() == 0:
		d.outcome = score.Scored
		d.feedback += " The minutes have run out."
	case d.step >= d.task.maxSteps:
		d.outcome = score.Failed
		d.feedback += " The steps have run out."
	}
}

// refusal says why the rules don't allow an action, "" if they do. What is refused takes no
// minutes.
func (d *desk) refusal(a episode.Action) string {
	m := d.selected()
	switch {
	case !slices.Contains(d.task.actions, a.Type):
		return fmt.Sprintf("%s is no action of this task. Use one of: %s.", a.Type, strings.Join(d.allowed(), ", "))
	case a.Type == selectTicket:
		if d.place(a.Get("ticket_id")) < 0 {
			return "the queue has no ticket of this id."
		}
		return ""
	case !m.open():
		return fmt.Sprintf("ticket %s is %s. Select another one.", m.id, m.status)
	case d.dense() && m.labelled(a):
		return "category and priority can be set once each, and what you sent is set already."
	case d.task.queue && escalates(a) && d.slots == 0:
		return "no escalation is left in this shift."
	case d.task.queue && d.minutes(a) > d.minutesLeft():
		return fmt.Sprintf("this takes %d minutes and %d are left.", d.minutes(a), d.minutesLeft())
	}
	return ""
}

func escalates(a episode.Action) bool { return a.Type == escalate || a.Get("decision") == escalate }

func resolves(a episode.Action) bool { return a.Type == resolve || a.Get("decision") == resolve }

// minutes are what an action takes: the sum of what it does to the ticket.
func (d *desk) minutes(a episode.Action) int {
	if !d.timed() {
		return 0
	}
	total := 0
	for _, part := range []struct {
		done bool
		kind queue.Kind
	}{
		{a.Get("category") != "", queue.Category}, {a.Get("priority") != "", queue.Priority},
		{a.Get("message") != "", queue.Reply},
		{resolves(a), queue.Resolve}, {escalates(a), queue.Escalate},
	} {
		if part.done {
			total += part.kind.Minutes()
		}
	}
	if a.Type == search && !d.task.queue {
		total += searchMinutes
	}
	return total
}

// place is where the ticket of an id is, -1 if there is none.
func (d *desk) place(id string) int {
	return slices.IndexFunc(d.matters, func(m matter) bool { return m.id == id })
}

func (d *desk) allClosed() bool {
	return !slices.ContainsFunc(d.matters, func(m matter) bool { return m.open() })
}

func (d *desk) play(a episode.Action) {
	m := d.selected()
	switch a.Type {
	case classify:
		d.classify(m, a)
	case search:
		d.search(m, a.Get("query"))
	case respond:
		d.respond(m, a.Get("message"))
	case resolve:
		d.reply(m, a.Get("message"))
		d.end(m, statusResolved)
	case escalate:
		d.escalate(m, a.Get("team"))
	case submit:
		d.submit(m, a)
	case selectTicket:
		d.at = d.place(a.Get("ticket_id"))
		d.feedback = fmt.Sprintf("This is ticket %s, %s.", d.selected().id, strings.ReplaceAll(d.selected().status, "_",
			" "))
	}
}

func (d *desk) classify(m *matter, a episode.Action) {
	m.label(a)
	m.begin()
	d.feedback = fmt.Sprintf("Category: %s. Priority: %s.", orUnset(m.category), orUnset(m.priority))
	if !d.task.reply && m.category != "" && m.priority != "" {
		d.outcome = score.Scored
	}
}

func orUnset(label string) string {
	if label == "" {
		return "not set"
	}
	return label
}

func (d *desk) search(m *matter, query string) {
	m.begin()
	d.found = findArticles(m.ticket.Articles, query)
	d.feedback = fmt.Sprintf("The knowledge base has %d matching articles.", len(d.found))
	switch len(d.found) {
	case 0:
		d.feedback = "The knowledge base has no article with these words."
	case 1:
		d.feedback = "The knowledge base has 1 matching article."
	}
}

// reply sends a message to the customer, if there is one.
func (d *desk) reply(m *matter, message string) {
	if message != "" {
		m.reply(message, d.clock)
	}
}

// respond sends a message and lets the customer answer.
func (d *desk) respond(m *matter, message string) {
	first := m.answered == queue.Never
	d.reply(m, message)
	answer := m.customer.answer(d.ears, m, first && d.timed() && d.clock > patience, d.dense())
	if answer == "" {
		m.status = statusPending
		d.feedback = "Your reply was sent; the customer has not answered yet. Resolve or escalate the ticket to end it."
		return
	}
	m.hear(answer)
	m.status = statusInProgress
	d.feedback = "Your reply was sent, and the customer has answered. Reply again, or resolve or escalate the ticket " +
		"to end it."
}

// end closes a ticket; in a queue the episode goes on with the others.
func (d *desk) end(m *matter, status string) {
	m.status = status
	d.feedback = "The ticket is " + status + "."
	if !d.task.queue {
		d.outcome = score.Scored
	}
}

func (d *desk) escalate(m *matter, team string) {
	m.team = episode.TeamName(team)
	d.slots--
	d.end(m, statusEscalated)
}

func (d *desk) submit(m *matter, a episode.Action) {
	m.label(a)
	m.begin()
	d.feedback = "Your answer was taken."
	if !d.task.queue {
		d.outcome = score.Scored
	}
	if !d.task.reply {
		return
	}
	d.reply(m, a.Get("message"))
	switch {
	case resolves(a):
		d.end(m, statusResolved)
	case escalates(a):
		d.escalate(m, a.Get("team"))
	case d.task.queue:
		d.feedback = "Your answer was taken; the ticket stays open, for you did not decide to resolve or to escalate it."
	}
}

// refuse counts an action outside the schema, which costs no step. The last one that is put up with
// ends the episode.
func (d *desk) refuse(err *episode.ActionError) {
	d.invalid++
	d.feedback = err.Error()
	if d.invalid >= episode.MaxInvalidActions {
		d.outcome = score.Failed
		d.feedback += fmt.Sprintf(". This was invalid action %d: the episode is over.", d.invalid)
	}
}
