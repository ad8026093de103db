// Package ticket is the ticket environment: an agent reads a customer's ticket, classifies it, sets its priority, searches the knowledge base, replies, and
// resolves or escalates it.
//
// One desk holds one ticket. An action makes the next desk out of the current one, and only when that has succeeded does it become the current one, so an action that
// fails by our fault leaves no trace. Category, priority and the decision are graded by rules; the reply is graded once, at the end, because only then is it
// known which actions it may speak of.
package ticket

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// rulesVersion changes whenever the rules of this package can give another score for the same episode.
const rulesVersion = "ticket.1"

//go:embed schemas
var schemas embed.FS

// Kind serves the tickets of a catalogue.
type Kind struct {
	catalog *scenarios.Catalog
	judge   grader.Judge
	tasks   []*task
	schemas episode.Schemas
}

var _ episode.Kind = (*Kind)(nil)

// task is what a task asks for and allows.
type task struct {
	name     string
	maxSteps int
	actions  []string
	// reply is true where a reply and a decision are asked for.
	reply bool
	// scale is the reply judge's, or "rules".
	scale string
	// offered are the milli-points of all parts together.
	offered int64
}

// New makes the environment's kind. The catalogue must hold at least one ticket.
func New(catalog *scenarios.Catalog, judge grader.Judge) (*Kind, error) {
	if len(catalog.Tickets()) == 0 {
		return nil, errors.New("the catalogue holds no tickets")
	}
	k := &Kind{catalog: catalog, judge: judge}
	var err error
	if k.tasks, err = newTasks(judge); err != nil {
		return nil, err
	}
	if k.schemas, err = actionForm.Schemas(schemas); err != nil {
		return nil, err
	}
	return k, nil
}

func newTasks(judge grader.Judge) ([]*task, error) {
	tasks := []*task{
		{name: grader.TaskClassify, maxSteps: 4, actions: []string{classify, search, submit}, scale: "rules"},
		{name: grader.TaskResolve, maxSteps: 10, actions: actionForm.Types(), reply: true, scale: judge.Name()},
	}
	for _, t := range tasks {
		var err error
		if t.offered, err = offered(t.name); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// Name is "ticket".
func (k *Kind) Name() string { return "ticket" }

// Description is a sentence for people.
func (k *Kind) Description() string {
	return "Handle a customer's support ticket: classify it, set its priority, reply to the customer, and resolve or escalate it."
}

// Tasks are ticket-classify, the default, and ticket-resolve. Every ticket can be played in both.
func (k *Kind) Tasks() []score.Task {
	scenarios := k.catalog.Tickets()
	tickets := make([]score.Scenario, len(scenarios))
	for i, s := range scenarios {
		tickets[i] = score.Scenario{ID: s.ID, Category: s.Category, Difficulty: s.Difficulty, Language: s.Language, Split: s.Split}
	}
	tasks := make([]score.Task, len(k.tasks))
	for i, t := range k.tasks {
		tasks[i] = score.Task{Name: t.name, Scenarios: slices.Clone(tickets)}
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

// choose finds the task and the scenario that the options ask for.
func (k *Kind) choose(opts episode.Options) (*task, *scenarios.TicketScenario, error) {
	chosen := k.tasks[0]
	if opts.Task != "" {
		chosen = k.task(opts.Task)
	}
	if chosen == nil {
		return nil, nil, fmt.Errorf("%w %q: this environment has %s", episode.ErrUnknownTask, opts.Task, strings.Join(k.taskNames(), ", "))
	}
	if opts.Scenario == "" {
		tickets := k.catalog.Tickets()
		return chosen, tickets[episode.Draw(opts.Seed, len(tickets))], nil
	}
	scenario, ok := k.catalog.Ticket(opts.Scenario)
	if !ok {
		return nil, nil, fmt.Errorf("%w %q of task %s", episode.ErrUnknownScenario, opts.Scenario, chosen.name)
	}
	return chosen, scenario, nil
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
