// Package ticket is the ticket environment: an agent reads a customer's ticket, classifies it, sets
// its priority, searches the knowledge base, replies, and resolves or escalates it.
//
// One state holds one ticket, or the five of a queue. An action makes the next state out of the
// current one, and only when that has succeeded does it become the current one, so an action that
// fails by our fault leaves no trace. Category, priority and the decision are graded by rules; the
// reply is graded once, when the ticket is closed or the episode over, because only then is it
// known which actions it may speak of.
//
// A queue runs on simulated minutes, and a single ticket does under pressure: what the tickets earn
// is multiplied by how soon their first replies came (see package queue).
package ticket

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// rulesVersion changes whenever the rules of this package can give another score for the same
// episode.
const rulesVersion = "ticket.2"

//go:embed schemas
var schemas embed.FS

// Kind serves the tickets of a catalogue.
type Kind struct {
	catalog *scenarios.Catalog
	queues  []queue.Queue
	judge   grader.Judge
	reader  messageReader
	optima  queue.Optima
	tasks   []*task
	schemas episode.Schemas
}

var _ episode.Kind = (*Kind)(nil)

// task is what a task asks for and allows.
type task struct {
	name     string
	maxSteps int
	actions  []string
	// reply is true where a reply and a decision are asked for, queue where five tickets come at
	// once.
	reply, queue bool
	// rubric is the grader's name of what a ticket is graded by.
	rubric string
	// scale is the reply judge's, or "rules".
	scale string
	// offered are the milli-points of all parts of a ticket together.
	offered int64
}

// New makes the environment's kind. The catalogue must hold at least one ticket. The task
// queue-management is offered where its tickets make up a queue.
func New(catalog *scenarios.Catalog, judge grader.Judge) (*Kind, error) {
	if len(catalog.Tickets()) == 0 {
		return nil, errors.New("the catalogue holds no tickets")
	}
	k := &Kind{catalog: catalog, judge: judge, reader: offline.New()}
	var err error
	if k.queues, err = queue.Compose(catalog); err != nil {
		return nil, fmt.Errorf("composing queues: %w", err)
	}
	if k.tasks, err = newTasks(judge); err != nil {
		return nil, err
	}
	if len(k.queues) == 0 {
		k.tasks = slices.DeleteFunc(k.tasks, func(t *task) bool { return t.queue })
	}
	if k.schemas, err = actionForm.Schemas(schemas); err != nil {
		return nil, err
	}
	return k, nil
}

func newTasks(judge grader.Judge) ([]*task, error) {
	ofOneTicket := slices.DeleteFunc(actionForm.Types(), func(a string) bool { return a == selectTicket })
	tasks := []*task{
		{name: grader.TaskClassify, rubric: grader.TaskClassify, maxSteps: 4,
			actions: []string{classify, search, submit}, scale: "rules"},
		{name: grader.TaskResolve, rubric: grader.TaskResolve, maxSteps: 10, actions: ofOneTicket, reply: true,
			scale: judge.Name()},
		{name: queue.Task, rubric: grader.TaskResolve, maxSteps: 40, actions: actionForm.Types(), reply: true,
			queue: true, scale: judge.Name()},
	}
	for _, t := range tasks {
		var err error
		if t.offered, err = offered(t.rubric); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// Name is "ticket".
func (k *Kind) Name() string { return "ticket" }

// Description is a sentence for people.
func (k *Kind) Description() string {
	return "Handle a customer's support ticket, or a queue of five: classify it, set its priority, reply to the " +
		"customer, and resolve or escalate it."
}

// categoryQueue is what the scores of queues are filed under.
const categoryQueue = "queue"

// Tasks are ticket-classify, the default, and ticket-resolve, in both of which every ticket can be
// played, and queue-management with the queues that the tickets make.
func (k *Kind) Tasks() []score.Task {
	scenarios := k.catalog.Tickets()
	tickets := make([]score.Scenario, len(scenarios))
	for i, s := range scenarios {
		tickets[i] = score.Scenario{ID: s.ID, Category: s.Category, Difficulty: s.Difficulty, Language: s.Language,
			Split: s.Split}
	}
	queues := make([]score.Scenario, len(k.queues))
	for i, q := range k.queues {
		queues[i] = score.Scenario{ID: q.ID, Category: categoryQueue, Difficulty: "hard", Language: q.Language,
			Split: q.Split}
	}
	tasks := make([]score.Task, len(k.tasks))
	for i, t := range k.tasks {
		tasks[i] = score.Task{Name: t.name, Scenarios: slices.Clone(tickets)}
		if t.queue {
			tasks[i].Scenarios = queues
		}
	}
	return tasks
}

// ScenarioDigest is the catalogue's.
func (k *Kind) ScenarioDigest() string { return k.catalog.Digest() }

// GraderVersion names the grader's version and that of this package's rules.
func (k *Kind) GraderVersion() string { return grader.GraderVersion + "+" + rulesVersion }

// Judge is the scale of the reply judge.
func (k *Kind) Judge() string { return k.judge.Name() }

// Schemas are those of the action, the observation and the state.
func (k *Kind) Schemas() episode.Schemas { return k.schemas }

// New makes the environment of one session.
func (k *Kind) New() episode.Environment { return &environment{kind: k} }

// choice is what the options of a reset ask for.
type choice struct {
	task   *task
	reader messageReader
	optima *queue.Optima
	// scenario is the id of a ticket or a queue.
	scenario string
	tickets  []*scenarios.TicketScenario
}

// choose finds the task and the scenario that the options ask for.
func (k *Kind) choose(opts episode.Options) (*choice, error) {
	t := k.tasks[0]
	if opts.Task != "" {
		t = k.task(opts.Task)
	}
	switch {
	case t == nil:
		return nil, fmt.Errorf("%w %q: this environment has %s", episode.ErrUnknownTask, opts.Task,
			strings.Join(k.taskNames(), ", "))
	case t.queue:
		return k.chooseQueue(t, opts)
	case opts.Scenario == "":
		tickets := k.catalog.Tickets()
		return k.chosen(t, tickets[episode.Draw(opts.Seed, len(tickets))]), nil
	}
	scenario, ok := k.catalog.Ticket(opts.Scenario)
	if !ok {
		return nil, unknownScenario(t, opts)
	}
	return k.chosen(t, scenario), nil
}

func unknownScenario(t *task, opts episode.Options) error {
	return fmt.Errorf("%w %q of task %s", episode.ErrUnknownScenario, opts.Scenario, t.name)
}

func (k *Kind) chosen(t *task, s *scenarios.TicketScenario) *choice {
	return &choice{task: t, reader: k.reader, scenario: s.ID, tickets: []*scenarios.TicketScenario{s}}
}

func (k *Kind) chooseQueue(t *task, opts episode.Options) (*choice, error) {
	at := slices.IndexFunc(k.queues, func(q queue.Queue) bool { return q.ID == opts.Scenario })
	switch {
	case opts.Scenario == "":
		at = episode.Draw(opts.Seed, len(k.queues))
	case at < 0:
		return nil, unknownScenario(t, opts)
	}
	q := k.queues[at]
	c := &choice{task: t, reader: k.reader, optima: &k.optima, scenario: q.ID, tickets: make([]*scenarios.TicketScenario,
		queue.Size)}
	for i, id := range q.Tickets {
		c.tickets[i], _ = k.catalog.Ticket(id) // queues are made of the catalogue's tickets
	}
	return c, nil
}

func (k *Kind) task(name string) *task {
	for _, t := range k.tasks {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (k *Kind) taskNames() []string {
	names := make([]string, len(k.tasks))
	for i, t := range k.tasks {
		names[i] = t.name
	}
	return names
}
