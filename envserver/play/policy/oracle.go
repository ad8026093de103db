package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// oracle plays a script of gold actions. It repeats an action of a workflow that failed by a
// scripted fault.
type oracle struct {
	script []json.RawMessage
	next   int
	ticket bool
}

func newOracle(ticket bool, catalog *scenarios.Catalog, planned score.PlannedEpisode) (*oracle, error) {
	script := workflowScript
	if ticket {
		script = ticketScript
	}
	actions, err := script(catalog, planned)
	if err != nil {
		return nil, fmt.Errorf("writing the gold actions of %s: %w", planned.Scenario, err)
	}
	return &oracle{script: actions, ticket: ticket}, nil
}

func (o *oracle) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	if !o.ticket && o.next > 0 {
		seen, err := decodeObservation[workflowView](turn)
		if err != nil {
			return nil, err
		}
		if seen.LastResult != nil && !seen.LastResult.OK {
			return o.script[o.next-1], nil
		}
	}
	if o.next == len(o.script) {
		return nil, fmt.Errorf("all gold actions of %s are played, but the episode continues", turn.Planned.Scenario)
	}
	o.next++
	return o.script[o.next-1], nil
}

func ticketScript(catalog *scenarios.Catalog, planned score.PlannedEpisode) ([]json.RawMessage, error) {
	scenario, ok := catalog.Ticket(planned.Scenario)
	if !ok {
		return nil, fmt.Errorf("the catalogue has no ticket %s", planned.Scenario)
	}
	ticket, err := scenario.Instantiate(planned.Seed)
	if err != nil {
		return nil, err
	}
	if err := checkReference(ticket); err != nil {
		return nil, err
	}
	gold := ticket.Gold
	labels, err := encodeAction("classify", map[string]any{"category": gold.Category, "priority": gold.Priority})
	if err != nil || planned.Task == "ticket-classify" {
		return []json.RawMessage{labels}, err
	}
	reply, err := goldReply(ticket)
	if err != nil {
		return nil, err
	}
	end, err := goldEnd(ticket)
	return []json.RawMessage{labels, reply, end}, err
}

// goldReply is a right reply with the facts that it tells.
func goldReply(t *scenarios.Ticket) (json.RawMessage, error) {
	return encodeAction("respond", map[string]any{"message": t.References.Good[0],
		"facts": facts.Stated(t.Required())})
}

// checkReference returns an error if a ticket has no reference reply.
func checkReference(t *scenarios.Ticket) error {
	if len(t.References.Good) == 0 {
		return fmt.Errorf("ticket %s has no reference reply at seed %d", t.ScenarioID, t.Seed)
	}
	return nil
}

func goldEnd(ticket *scenarios.Ticket) (json.RawMessage, error) {
	if !ticket.Gold.Escalate {
		return encodeAction("resolve", nil)
	}
	reason := ticket.Gold.ReasonCode + " " + ticket.Gold.Policy
	return encodeAction("escalate", map[string]any{"team": ticket.Gold.Team, "reason": reason})
}

func workflowScript(catalog *scenarios.Catalog, planned score.PlannedEpisode) ([]json.RawMessage, error) {
	scenario, ok := catalog.Workflow(planned.Scenario)
	if !ok {
		return nil, fmt.Errorf("the catalogue has no workflow %s", planned.Scenario)
	}
	workflow, err := scenario.Instantiate(planned.Seed)
	if err != nil {
		return nil, err
	}
	if len(workflow.References.Good) == 0 {
		return nil, fmt.Errorf("it has no reference reply at seed %d", planned.Seed)
	}
	var script []json.RawMessage
	for _, step := range inOrder(workflow.Steps) {
		raw, err := encodeCall(step.Action, BuildPayload(workflow, step))
		if err != nil {
			return nil, err
		}
		script = append(script, raw)
	}
	return script, nil
}

// inOrder sorts the steps by their requirements, then by the file's order.
func inOrder(steps []scenarios.WorkflowStep) (ordered []scenarios.WorkflowStep) {
	done := map[string]bool{}
	left := slices.Clone(steps)
	for len(left) > 0 {
		ready := slices.IndexFunc(left, func(s scenarios.WorkflowStep) bool {
			return !slices.ContainsFunc(s.Requires, func(id string) bool { return !done[id] })
		})
		ready = max(ready, 0) // steps with unknown requirements keep their positions
		done[left[ready].ID] = true
		ordered = append(ordered, left[ready])
		left = slices.Delete(left, ready, ready+1)
	}
	return ordered
}

// BuildPayload returns a payload that the step accepts.
func BuildPayload(w *scenarios.Workflow, step scenarios.WorkflowStep) map[string]any {
	payload := map[string]any{}
	for _, arg := range step.Args {
		payload[arg.Name] = chooseArgument(w, arg)
	}
	switch {
	case step.Action == desk.Tell:
		for name, value := range w.Message(step) {
			if cents, ok := value.(int64); ok {
				value = scenarios.Cents(cents)
			}
			payload[name] = value
		}
	case step.Ask:
		payload["message"] = "Could you tell me this, please: " + strings.Join(step.About, ", ") + "?"
	case step.Terminal:
		payload["message"], payload["facts"] = w.References.Good[0], facts.Stated(w.Required())
	}
	return payload
}

func chooseArgument(w *scenarios.Workflow, arg scenarios.Arg) any {
	if len(arg.In) == 0 {
		return w.Records.Orders[0].ID
	}
	if cents, ok := arg.In[0].(int64); ok {
		return scenarios.Cents(cents)
	}
	return arg.In[0]
}

// oracleQueue plays the best schedule of a queue with gold answers.
type oracleQueue struct {
	tickets []*scenarios.Ticket
	acts    []queue.Act
}

func newOracleQueue(catalog *scenarios.Catalog, queues []queue.Queue,
	planned score.PlannedEpisode) (*oracleQueue, error) {
	at := slices.IndexFunc(queues, func(q queue.Queue) bool { return q.ID == planned.Scenario })
	if at < 0 {
		return nil, fmt.Errorf("the catalogue makes no queue %s", planned.Scenario)
	}
	tickets, err := queues[at].Instantiate(catalog, planned.Seed)
	var cases [queue.Size]queue.Case
	for i, ticket := range tickets {
		err = errors.Join(err, checkReference(ticket))
		cases[i] = queue.CaseOf(&ticket.Served)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the gold actions of %s: %w", planned.Scenario, err)
	}
	return &oracleQueue{tickets: tickets, acts: queue.FindBestSchedule(cases).Acts}, nil
}

// Act plays the schedule's next act. After the last one it ends the shift without earning points.
func (o *oracleQueue) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := observedQueue(turn)
	if err != nil {
		return nil, err
	}
	if len(o.acts) == 0 {
		return o.endShift(v)
	}
	next := o.acts[0]
	if id := v.Queue[next.Ticket].TicketID; id != v.TicketID {
		return selectTicket(id)
	}
	o.acts = o.acts[1:]
	ticket := o.tickets[next.Ticket]
	switch next.Kind {
	case queue.Category:
		return encodeAction("classify", map[string]any{"category": ticket.Gold.Category})
	case queue.Priority:
		return encodeAction("classify", map[string]any{"priority": ticket.Gold.Priority})
	case queue.Reply:
		return goldReply(ticket)
	default:
		return goldEnd(ticket)
	}
}

// endShift resolves the open tickets that an agent may settle, then labels the others again until
// no minute is left: to resolve them would be a wrong decision.
func (o *oracleQueue) endShift(v ticketView) (json.RawMessage, error) {
	at := slices.IndexFunc(v.Queue, func(q queuedTicket) bool { return !q.isClosed() })
	for i, q := range v.Queue {
		if !q.isClosed() && !o.tickets[i].Gold.Escalate {
			at = i
			break
		}
	}
	switch {
	case at < 0:
		return nil, errors.New("every ticket of the queue is closed, but the episode has not ended")
	case v.Queue[at].TicketID != v.TicketID:
		return selectTicket(v.Queue[at].TicketID)
	case o.tickets[at].Gold.Escalate:
		return encodeAction("classify", map[string]any{"category": o.tickets[at].Gold.Category})
	}
	return encodeAction("resolve", nil)
}
