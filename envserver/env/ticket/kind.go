// Package ticket is the ticket environment: an agent reads a customer's ticket, classifies it, sets
// its priority, searches the knowledge base, replies, and resolves or escalates it.
//
// A state holds one ticket, or the five of a queue. An action changes a copy of the state, which
// replaces it if the action succeeds: a failure of the environment leaves no trace. Category,
// priority and the decision are graded by rules. The reply is graded once, when the ticket is
// closed or the episode is over, because the actions that it may mention are known then.
//
// Queues, and single tickets under pressure, run on simulated minutes: a ticket's points are
// multiplied by a factor of how soon its first reply came (see package queue).
package ticket

import (
	"embed"
	"errors"
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// rulesVersion must change if this package's rules can give another score for the same episode.
const rulesVersion = "ticket.6"

//go:embed schemas
var schemas embed.FS

// Kind serves the tickets of a catalogue.
type Kind struct {
	catalog *scenarios.Catalog
	queues  []queue.Queue
	judge   grader.Judge
	reader  messageReader
	optima  queue.Optima
	library library
	// instances are the tickets of the current episodes.
	instances episode.Instances[[]*scenarios.DrawnTicket]
	tasks     []*task
	schemas   episode.Schemas
}

var _ episode.Kind = (*Kind)(nil)

// task is a named way to play scenarios.
type task struct {
	tasks.Task
	actions []string
	// queue means five tickets at once.
	queue bool
	// rubric is the grader's name of the rubric, scale the reply judge's, or "rules".
	rubric, scale string
	// offered is the sum of milli-points of a ticket.
	offered int64
}

// New makes the environment's kind. The catalogue must contain at least one ticket. It offers the
// task queue-management if the tickets are sufficient for a queue.
func New(catalog *scenarios.Catalog, judge grader.Judge) (*Kind, error) {
	if len(catalog.Tickets()) == 0 {
		return nil, errors.New("the catalogue holds no tickets")
	}
	reader, ok := judge.(messageReader)
	if !ok {
		reader = offline.New()
	}
	k := &Kind{catalog: catalog, judge: judge, reader: reader, queues: queue.ComposeQueues(catalog)}
	var err error
	if k.tasks, err = newTasks(judge); err != nil {
		return nil, err
	}
	if len(k.queues) == 0 {
		k.tasks = slices.DeleteFunc(k.tasks, func(t *task) bool { return t.queue })
	}
	k.schemas, err = actionForm.Schemas(schemas)
	k.schemas.Allowed = allowedActions(k.tasks)
	return k, err
}

// newTasks makes the environment's tasks from their table.
func newTasks(judge grader.Judge) ([]*task, error) {
	ofOneTicket := slices.DeleteFunc(actionForm.Types(), func(a string) bool { return a == selectTicket })
	var all []*task
	for _, row := range tasks.OfEnvironment(tasks.Ticket) {
		t := &task{Task: row, actions: ofOneTicket, rubric: tasks.TicketResolve, scale: judge.Name()}
		switch row.Name {
		case tasks.TicketClassify:
			t.actions, t.rubric, t.scale = []string{classify, search, submit}, tasks.TicketClassify, "rules"
		case tasks.QueueManagement:
			t.actions, t.queue = actionForm.Types(), true
		}
		var err error
		if t.offered, err = sumOffered(t.rubric); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// allowedActions returns the actions of each task.
func allowedActions(tasks []*task) map[string][]string {
	allowed := map[string][]string{}
	for _, t := range tasks {
		allowed[t.Name] = t.actions
	}
	return allowed
}

// The methods below implement episode.Kind.

func (k *Kind) Name() string             { return tasks.Ticket }
func (k *Kind) ScenarioDigest() string   { return k.catalog.Digest() }
func (k *Kind) GraderVersion() string    { return grader.GraderVersion + "+" + rulesVersion }
func (k *Kind) Judge() string            { return k.judge.Name() }
func (k *Kind) Schemas() episode.Schemas { return k.schemas }
func (k *Kind) New() episode.Environment { return &environment{kind: k} }
func (k *Kind) Description() string {
	return "Handle a customer's support ticket, or a queue of five: classify it, set its priority, reply to the " +
		"customer, and resolve or escalate it."
}

// categoryQueue is the category of the scores of queues.
const categoryQueue = "queue"

// Tasks are ticket-classify, the default, and ticket-resolve, both with every ticket, and
// queue-management with the queues that can be made of the tickets.
func (k *Kind) Tasks() []score.Task {
	catalog := k.catalog.Tickets()
	tickets, queues := make([]score.Scenario, 0, len(catalog)), make([]score.Scenario, 0, len(k.queues))
	for _, s := range catalog {
		tickets = append(tickets, score.Scenario{ID: s.ID, Category: s.Category, Difficulty: s.Difficulty,
			Language: s.Language, Split: s.Split})
	}
	for _, q := range k.queues {
		queues = append(queues, score.Scenario{ID: q.ID, Category: categoryQueue, Difficulty: "hard",
			Language: q.Language, Split: q.Split})
	}
	tasks := make([]score.Task, len(k.tasks))
	for i, t := range k.tasks {
		tasks[i] = score.Task{Name: t.Name, Scenarios: slices.Clone(tickets)}
		if t.queue {
			tasks[i].Scenarios = queues
		}
	}
	return tasks
}

// choice is the task and the tickets that the options of a reset select.
type choice struct {
	task    *task
	reader  messageReader
	optima  *queue.Optima
	library *library
	// scenario is the id of a ticket or a queue.
	scenario string
	tickets  []*scenarios.TicketScenario
}
