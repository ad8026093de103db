// Package workflow is the workflow environment: an agent settles a customer's issue in several
// steps against an order and a payment backend.
//
// A scenario is a graph of required steps. An action earns when it is a required step not done
// before whose prerequisites are met, and costs when it is wrong, repeated, out of order or
// forbidden; a harmless look-up costs little. What the agent needs to know (amounts, dates,
// statuses) stands only behind the look-ups, and the arguments of an action matter. The resolution
// is paid for the state that the backend ends in and for the facts in the reply, not for the path.
// Rewards are never clamped: a penalty is always seen.
package workflow

import (
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// rulesVersion changes whenever the rules of this package can give another score for the same
// episode.
const rulesVersion = "workflow.3"

// scale is the name under which figures of this environment are reported: rules alone grade,
// replies included.
const scale = "rules"

// category is that of every workflow in the statistics.
const category = "workflow"

//go:embed schemas
var schemas embed.FS

// Reader reads the reply that ends an episode, as the offline judge of package grader does. It is
// safe for concurrent use.
type Reader interface {
	// FactsStated reports for each fact whether the reply states it. The known texts hold the other
	// values that a reply may state beside a fact's.
	FactsStated(reply string, facts []scenarios.Fact, known []string, language string) []bool
	// Commits reports whether the reply promises one of the acts that the verbs name.
	Commits(reply string, verbs []string, language string) bool
}

// Kind serves the workflows of a catalogue.
type Kind struct {
	catalog *scenarios.Catalog
	reader  Reader
	tasks   []*task
	schemas episode.Schemas
}

var _ episode.Kind = (*Kind)(nil)

// task holds the workflows of one class.
type task struct {
	name      string
	class     string
	scenarios []*scenarios.WorkflowScenario
}

// New makes the environment's kind. The catalogue must hold at least one workflow.
func New(catalog *scenarios.Catalog, reader Reader) (*Kind, error) {
	k := &Kind{catalog: catalog, reader: reader}
	for _, t := range []*task{{name: "order-inquiry", class: "simple"}, {name: "refund", class: "medium"},
		{name: "payment-exception", class: "complex"}} {
		for _, s := range catalog.Workflows() {
			if s.Class == t.class {
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
	return k, err
}

// Name is "workflow".
func (k *Kind) Name() string { return "workflow" }

// Description is a sentence for people.
func (k *Kind) Description() string {
	return "Settle a customer's issue in several steps: look orders and payments up, refund, escalate, and reply " +
		"with the facts."
}

// Tasks are those of order-inquiry, refund and payment-exception that the catalogue has workflows
// for.
func (k *Kind) Tasks() []score.Task {
	tasks := make([]score.Task, len(k.tasks))
	for i, t := range k.tasks {
		tasks[i].Name = t.name
		for _, s := range t.scenarios {
			tasks[i].Scenarios = append(tasks[i].Scenarios, score.Scenario{
				ID: s.ID, Category: category, Difficulty: s.Class, Language: s.Language, Split: s.Split,
			})
		}
	}
	return tasks
}

// ScenarioDigest is the catalogue's.
func (k *Kind) ScenarioDigest() string { return k.catalog.Digest() }

// GraderVersion names the version of the grader, which reads replies, and that of this package's
// rules.
func (k *Kind) GraderVersion() string { return grader.GraderVersion + "+" + rulesVersion }

// Judge is "rules": no judge has an opinion here.
func (k *Kind) Judge() string { return scale }

// Schemas are those of the action, the observation and the state.
func (k *Kind) Schemas() episode.Schemas { return k.schemas }

// New makes the environment of one session.
func (k *Kind) New() episode.Environment { return &environment{kind: k} }

// choose finds the task and the scenario that the options ask for.
func (k *Kind) choose(opts episode.Options) (*task, *scenarios.WorkflowScenario, error) {
	chosen := k.tasks[0]
	if opts.Task != "" {
		chosen = k.task(opts.Task)
	}
	if chosen == nil {
		return nil, nil, fmt.Errorf("%w %q: this environment has %s", episode.ErrUnknownTask, opts.Task,
			strings.Join(k.taskNames(), ", "))
	}
	if opts.Scenario == "" {
		return chosen, chosen.scenarios[episode.Draw(opts.Seed, len(chosen.scenarios))], nil
	}
	for _, s := range chosen.scenarios {
		if s.ID == opts.Scenario {
			return chosen, s, nil
		}
	}
	return nil, nil, fmt.Errorf("%w %q of task %s", episode.ErrUnknownScenario, opts.Scenario, chosen.name)
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
