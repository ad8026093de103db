package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// oracle plays a script of gold actions. It plays an action again that failed by a fault of the
// environment's.
type oracle struct {
	script []json.RawMessage
	next   int
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
	return &oracle{script: actions}, nil
}

// Act returns the script's next action.
func (o *oracle) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	var seen struct {
		LastResult *struct {
			OK bool `json:"ok"`
		} `json:"last_result"`
	}
	if err := json.Unmarshal(turn.Observation, &seen); err != nil {
		return nil, fmt.Errorf("reading the last result: %w", err)
	}
	if seen.LastResult != nil && !seen.LastResult.OK && o.next > 0 {
		return o.script[o.next-1], nil
	}
	if o.next == len(o.script) {
		return nil, fmt.Errorf("the gold actions of %s are all played and the episode goes on", turn.Planned.Scenario)
	}
	o.next++
	return o.script[o.next-1], nil
}

// writer collects the actions of a script and the first error.
type writer struct {
	actions []json.RawMessage
	err     error
}

func (w *writer) add(raw json.RawMessage, err error) {
	w.actions = append(w.actions, raw)
	if w.err == nil {
		w.err = err
	}
}

func ticketScript(catalog *scenarios.Catalog, planned score.PlannedEpisode) ([]json.RawMessage, error) {
	ticket, err := goldTicket(catalog, planned.Scenario, planned.Seed)
	if err != nil {
		return nil, err
	}
	var w writer
	w.add(action("classify", map[string]any{"category": ticket.Gold.Category, "priority": ticket.Gold.Priority}))
	if planned.Task == "ticket-classify" {
		return w.actions, w.err
	}
	w.add(action("respond", map[string]any{"message": ticket.References.Good[0]}))
	w.add(goldEnd(ticket))
	return w.actions, w.err
}

// goldTicket is an instance that has a reference reply.
func goldTicket(catalog *scenarios.Catalog, id string, seed int64) (*scenarios.Ticket, error) {
	scenario, ok := catalog.Ticket(id)
	if !ok {
		return nil, fmt.Errorf("the catalogue has no ticket %s", id)
	}
	ticket, err := scenario.Instantiate(seed)
	if err != nil {
		return nil, err
	}
	if len(ticket.References.Good) == 0 {
		return nil, fmt.Errorf("ticket %s has no reference reply at seed %d", id, seed)
	}
	return ticket, nil
}

// goldEnd is the right decision on a ticket.
func goldEnd(ticket *scenarios.Ticket) (json.RawMessage, error) {
	if !ticket.Gold.Escalate {
		return action("resolve", nil)
	}
	return action("escalate", map[string]any{"team": ticket.Gold.Team, "reason": ticket.Gold.ReasonCode + " " +
		ticket.Gold.Policy})
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
	var w writer
	for _, step := range inOrder(workflow.Steps) {
		w.add(call(step.Action, arguments(workflow, step)))
	}
	return w.actions, w.err
}

// inOrder sorts the steps so that each follows those that it requires, in the file's order
// otherwise.
func inOrder(steps []scenarios.WorkflowStep) []scenarios.WorkflowStep {
	var ordered []scenarios.WorkflowStep
	done := map[string]bool{}
	left := slices.Clone(steps)
	for len(left) > 0 {
		ready := slices.IndexFunc(left, func(s scenarios.WorkflowStep) bool {
			return !slices.ContainsFunc(s.Requires, func(id string) bool { return !done[id] })
		})
		// The loader refuses cycles; a step that waits for what isn't there comes as it stands.
		ready = max(ready, 0)
		done[left[ready].ID] = true
		ordered = append(ordered, left[ready])
		left = slices.Delete(left, ready, ready+1)
	}
	return ordered
}

// arguments are a payload that the step accepts.
func arguments(w *scenarios.Workflow, step scenarios.WorkflowStep) map[string]any {
	payload := map[string]any{}
	for _, arg := range step.Args {
		payload[arg.Name] = argument(w, arg)
	}
	switch {
	case step.Ask:
		payload["message"] = "Could you tell me which order this is about?"
	case step.Terminal:
		payload["message"] = w.References.Good[0]
	}
	return payload
}

func argument(w *scenarios.Workflow, arg scenarios.Arg) any {
	if len(arg.In) == 0 {
		return w.State.Orders[0].ID
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
	o := &oracleQueue{}
	var cases [queue.Size]queue.Case
	for i, id := range queues[at].Tickets {
		ticket, err := goldTicket(catalog, id, planned.Seed)
		if err != nil {
			return nil, fmt.Errorf("writing the gold actions of %s: %w", planned.Scenario, err)
		}
		o.tickets = append(o.tickets, ticket)
		cases[i] = queue.CaseOf(ticket)
	}
	o.acts = queue.Best(cases).Acts
	return o, nil
}

// Act plays the schedule's next act. What is left over when it has been played is resolved, which
// earns nothing.
func (o *oracleQueue) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := readQueue(turn.Observation)
	if err != nil {
		return nil, err
	}
	if len(o.acts) == 0 {
		return v.clear()
	}
	next := o.acts[0]
	if id := v.Queue[next.Ticket].TicketID; id != v.TicketID {
		return selectTicket(id)
	}
	o.acts = o.acts[1:]
	ticket := o.tickets[next.Ticket]
	switch next.Kind {
	case queue.Category:
		return action("classify", map[string]any{"category": ticket.Gold.Category})
	case queue.Priority:
		return action("classify", map[string]any{"priority": ticket.Gold.Priority})
	case queue.Reply:
		return action("respond", map[string]any{"message": ticket.References.Good[0]})
	default:
		return goldEnd(ticket)
	}
}
