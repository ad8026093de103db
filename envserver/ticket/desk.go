package ticket

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// The values of status.
const (
	statusOpen       = "open"
	statusInProgress = "in_progress"
	statusPending    = "pending_customer"
	statusResolved   = "resolved"
	statusEscalated  = "escalated"
)

// desk is the state of an episode. It changes only by apply, on a clone.
type desk struct {
	task   *task
	ticket *scenarios.Ticket
	// id is the ticket's on the wire.
	id   string
	mode episode.RewardMode

	status       string
	step         int
	invalid      int
	feedback     string
	conversation []Message
	found        []scenarios.Article

	category, priority string
	replies            []string
	team               string

	// outcome is "" until the episode has ended.
	outcome score.Outcome
	// paid is the part of the episode's score given as reward so far, in milli-points.
	paid int64
}

func newDesk(t *task, ticket *scenarios.Ticket, opts episode.Options) *desk {
	d := &desk{
		task: t, ticket: ticket, id: episode.OpaqueID("T", opts.Seed), mode: opts.RewardMode, status: statusOpen,
		feedback: "A ticket has come in.", conversation: make([]Message, len(ticket.History)),
	}
	for i, m := range ticket.History {
		d.conversation[i] = Message{Role: m.Role, Content: m.Text}
	}
	return d
}

// clone is the desk that the next action is played on. The two may share what has been written, which never changes; only one of them is ever gone on with.
func (d *desk) clone() *desk {
	c := *d
	c.found = nil
	return &c
}

func (d *desk) errored() bool { return d.outcome == score.Errored }

func (d *desk) dense() bool { return d.mode == episode.Dense }

// allowed are the actions that can still change something.
func (d *desk) allowed() []string {
	if d.outcome != "" {
		return []string{}
	}
	allowed := slices.Clone(d.task.actions)
	if d.dense() && d.category != "" && d.priority != "" {
		allowed = slices.DeleteFunc(allowed, func(a string) bool { return a == classify })
	}
	return allowed
}

// apply plays an action of the schema. Every action uses up a step, also one that the rules refuse.
func (d *desk) apply(a episode.Action) {
	d.step++
	switch {
	case !slices.Contains(d.task.actions, a.Type):
		d.feedback = fmt.Sprintf("Nothing was done: %s is no action of this task. Use one of: %s.", a.Type, strings.Join(d.allowed(), ", "))
	case d.labelsTwice(a):
		d.feedback = "Nothing was done: category and priority can be set once each, and what you sent is set already."
	default:
		d.play(a)
	}
	if d.outcome == "" && d.step >= d.task.maxSteps {
		d.outcome = score.Failed
		d.feedback += " The steps have run out."
	}
}

// labelsTwice reports whether the action sets a label that stands. Dense rewards tell whether a label was right, so there it can't be revised.
func (d *desk) labelsTwice(a episode.Action) bool {
	return d.dense() && (a.Get("category") != "" && d.category != "" || a.Get("priority") != "" && d.priority != "")
}

func (d *desk) play(a episode.Action) {
	switch a.Type {
	case classify:
		d.classify(a)
	case search:
		d.search(a.Get("query"))
	case respond:
		d.reply(a.Get("message"))
		d.status = statusPending
		d.feedback = "Your reply was sent; the customer has not answered yet. Resolve or escalate the ticket to end it."
	case resolve:
		d.reply(a.Get("message"))
		d.end(statusResolved)
	case escalate:
		d.team = episode.TeamName(a.Get("team"))
		d.end(statusEscalated)
	case submit:
		d.submit(a)
	}
}

func (d *desk) classify(a episode.Action) {
	d.label(a)
	d.inProgress()
	d.feedback = fmt.Sprintf("Category: %s. Priority: %s.", orUnset(d.category), orUnset(d.priority))
	if !d.task.reply && d.category != "" && d.priority != "" {
		d.outcome = score.Scored
	}
}

func (d *desk) label(a episode.Action) {
	if category := a.Get("category"); category != "" {
		d.category = category
	}
	if priority := a.Get("priority"); priority != "" {
		d.priority = priority
	}
}

func orUnset(label string) string {
	if label == "" {
		return "not set"
	}
	return label
}

// inProgress says that work on the ticket has begun; a ticket that waits for the customer goes on waiting.
func (d *desk) inProgress() {
	if d.status == statusOpen {
		d.status = statusInProgress
	}
}

func (d *desk) search(query string) {
	d.inProgress()
	d.found = findArticles(d.ticket.Articles, query)
	d.feedback = fmt.Sprintf("The knowledge base has %d matching articles.", len(d.found))
	switch len(d.found) {
	case 0:
		d.feedback = "The knowledge base has no article with these words."
	case 1:
		d.feedback = "The knowledge base has 1 matching article."
	}
}

func (d *desk) reply(message string) {
	if message == "" {
		return
	}
	d.replies = append(d.replies, message)
	d.conversation = append(d.conversation, Message{Role: "agent", Content: message})
}

func (d *desk) end(status string) {
	d.status = status
	d.outcome = score.Scored
	d.feedback = "The ticket is " + status + "."
}

func (d *desk) submit(a episode.Action) {
	d.label(a)
	d.outcome = score.Scored
	d.feedback = "Your answer was taken."
	if !d.task.reply {
		d.inProgress()
		return
	}
	d.reply(a.Get("message"))
	d.team = episode.TeamName(a.Get("team"))
	switch a.Get("decision") {
	case resolve:
		d.status = statusResolved
	case escalate:
		d.status = statusEscalated
	default:
		d.inProgress()
	}
}

// refuse counts an action outside the schema, which costs no step. The last one that is put up with ends the episode.
func (d *desk) refuse(err *episode.ActionError) {
	d.invalid++
	d.feedback = err.Error()
	if d.invalid >= episode.MaxInvalidActions {
		d.outcome = score.Failed
		d.feedback += fmt.Sprintf(". This was invalid action %d: the episode is over.", d.invalid)
	}
}
