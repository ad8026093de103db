// Package workflow is the workflow environment: an agent settles a customer's issue in several
// steps against an order and a payment backend.
//
// A scenario is a graph of required steps. An action earns points if it is a required step that
// wasn't done before and its prerequisites are met. It costs points if it is wrong, repeated, out
// of order or forbidden; a harmless look-up costs little. The agent finds amounts, dates and
// statuses by look-ups only, and the arguments of an action count. The resolution is paid for the
// final state of the backend and the facts in the reply, not for the path; a reply that lacks facts
// is paid in part. In generated cases a look-up is paid in full only if the case is settled.
// A model may read the letter: whether it may be sent, and harm, cap what the resolution earns.
// Rewards are never clamped, so that every penalty is visible.
package workflow

import (
	"embed"
	"errors"
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// rulesVersion must change if this package's rules can give another score for the same episode.
const rulesVersion = "workflow.12"

const (
	// unread is the scale of episodes whose letters nobody reads.
	unread = "rules"
)

//go:embed schemas
var schemas embed.FS

// Reader compares a message to the customer, and the facts stated beside it, with what the workflow
// requires to be told. It is safe for concurrent use.
type Reader interface {
	Tell(w *scenarios.Workflow, message string, stated []facts.Fact) grader.Told
}

// Kind serves the workflows of a catalogue.
type Kind struct {
	catalog *scenarios.Catalog
	reader  Reader
	// judge reads the letters, nil if nobody does, and scale names what grades.
	judge grader.Judge
	scale string
	// customer is the one of conversations, nil for the embedded one.
	customer Customer
	// instances are the workflows of the current episodes.
	instances episode.Instances[scenarios.Workflow]
	tasks     []*task
	schemas   episode.Schemas
}

var _ episode.Kind = (*Kind)(nil)

// task holds the workflows of one task.
type task struct {
	tasks.Task
	scenarios []*scenarios.WorkflowScenario
}

// New makes the environment's kind. The catalogue must contain at least one workflow.
func New(catalog *scenarios.Catalog, reader Reader) (*Kind, error) {
	k := &Kind{catalog: catalog, reader: reader, scale: unread}
	for _, row := range tasks.OfEnvironment(tasks.Workflow) {
		t := &task{Task: row}
		for _, s := range slices.Concat(catalog.Workflows(), catalog.Cases()) {
			if s.Task() == t.Name {
				t.scenarios = append(t.scenarios, s)
			}
		}
		if len(t.scenarios) > 0 {
			k.tasks = append(k.tasks, t)
		}
	}
	if len(k.tasks) == 0 {
		return nil, errors.New("the catalogue holds no workflows")
	}
	var err error
	k.schemas, err = actionForm.Schemas(schemas)
	k.schemas.Allowed = map[string][]string{}
	for _, t := range k.tasks {
		k.schemas.Allowed[t.Name] = desk.ListToolNames(KindOf(&t.Task))
	}
	return k, err
}

// NewJudged makes the kind with a judge of replies. One that is a Reader alone reads no letters.
func NewJudged(catalog *scenarios.Catalog, judge grader.Judge) (*Kind, error) {
	if reader, ok := judge.(Reader); ok {
		return New(catalog, reader)
	}
	k, err := New(catalog, offline.New())
	if err == nil {
		k.judge, k.scale = judge, judge.Name()
	}
	return k, err
}

// The methods below implement episode.Kind.

func (k *Kind) Name() string             { return tasks.Workflow }
func (k *Kind) ScenarioDigest() string   { return k.catalog.Digest() }
func (k *Kind) Judge() string            { return k.scale }
func (k *Kind) Schemas() episode.Schemas { return k.schemas }
func (k *Kind) New() episode.Environment { return &environment{kind: k} }
func (k *Kind) Description() string {
	return "Settle a customer's issue in several steps: look orders and payments up, refund, escalate, and reply " +
		"with the facts."
}

// GraderVersion names a customer that isn't the embedded one, too.
func (k *Kind) GraderVersion() string {
	version := grader.GraderVersion + "+" + rulesVersion
	if k.customer == nil {
		return version
	}
	return episode.WithCustomer(version, k.customer.Name())
}

// Tasks are the environment's tasks for which there are workflows.
func (k *Kind) Tasks() []score.Task {
	tasks := make([]score.Task, len(k.tasks))
	for i, t := range k.tasks {
		tasks[i].Name = t.Name
		for _, s := range t.scenarios {
			tasks[i].Scenarios = append(tasks[i].Scenarios, score.Scenario{
				ID: s.ID, Category: s.Category(), Difficulty: s.Class, Language: s.Language, Split: s.Split,
				Modifiers: s.Modifiers,
			})
		}
	}
	return tasks
}
