// Package tasks is the table of environments and of the tasks that they play. What depends on a
// task's name asks this table.
package tasks

import (
	"cmp"
	"slices"
)

// The environments, as servers, plans and recordings name them.
const (
	// Ticket is a support desk: classify, prioritise, reply, resolve or escalate.
	Ticket = "ticket"
	// Workflow is multi-step tool use over the records of orders and payments.
	Workflow = "workflow"
)

// The tasks that code names.
const (
	// TicketClassify requires only category and priority.
	TicketClassify = "ticket-classify"
	// TicketResolve requires category, priority, escalation and a reply.
	TicketResolve = "ticket-resolve"
	// QueueManagement is five tickets with deadlines.
	QueueManagement = "queue-management"
)

// Task is a row of the table.
type Task struct {
	Name        string
	Environment string
	// PassScore is the minimum score of an episode that passes, unless a run sets another, in
	// micro-points.
	PassScore int64
	// MaxSteps is the number of actions of an episode, 0 if each workflow has its own.
	MaxSteps int
	// Class is the class of the workflows that the task plays, "" for tickets.
	Class string
	// Generated tells that the workflows are generated cases, which have more tools.
	Generated bool
	// Talks tells that the customer of a generated case answers the agent's messages.
	Talks bool
	// Replies tells that a judge grades what the agent writes.
	Replies bool
	// Verb and Noun are what an agent does, as "Resolves" and "tickets".
	Verb, Noun string
}

// table has the default task of each environment first.
var table = []Task{
	{Name: TicketClassify, Environment: Ticket, PassScore: 800_000, MaxSteps: 4,
		Verb: "Classifies", Noun: "tickets"},
	{Name: TicketResolve, Environment: Ticket, PassScore: 750_000, MaxSteps: 10, Replies: true,
		Verb: "Resolves", Noun: "tickets"},
	{Name: QueueManagement, Environment: Ticket, PassScore: 850_000, MaxSteps: 40, Replies: true,
		Verb: "Manages", Noun: "queues"},
	{Name: "order-inquiry", Environment: Workflow, PassScore: 750_000, Class: "simple",
		Verb: "Handles", Noun: "workflows"},
	{Name: "refund", Environment: Workflow, PassScore: 750_000, Class: "medium",
		Verb: "Handles", Noun: "workflows"},
	{Name: "payment-exception", Environment: Workflow, PassScore: 750_000, Class: "complex",
		Verb: "Handles", Noun: "workflows"},
	{Name: "case-easy", Environment: Workflow, PassScore: 750_000, Class: "easy", Generated: true,
		Verb: "Handles", Noun: "cases"},
	{Name: "case-medium", Environment: Workflow, PassScore: 750_000, Class: "medium", Generated: true,
		Verb: "Handles", Noun: "cases"},
	{Name: "case-hard", Environment: Workflow, PassScore: 750_000, Class: "hard", Generated: true,
		Verb: "Handles", Noun: "cases"},
	{Name: "talk-easy", Environment: Workflow, PassScore: 750_000, Class: "easy", Generated: true, Talks: true,
		Verb: "Handles", Noun: "conversations"},
	{Name: "talk-medium", Environment: Workflow, PassScore: 750_000, Class: "medium", Generated: true, Talks: true,
		Verb: "Handles", Noun: "conversations"},
	{Name: "talk-hard", Environment: Workflow, PassScore: 750_000, Class: "hard", Generated: true, Talks: true,
		Verb: "Handles", Noun: "conversations"},
}

// Find returns a task, and whether there is one of that name.
func Find(name string) (Task, bool) {
	at := slices.IndexFunc(table, func(t Task) bool { return t.Name == name })
	if at < 0 {
		return Task{}, false
	}
	return table[at], true
}

// Names lists all tasks.
func Names() []string {
	names := make([]string, len(table))
	for i, t := range table {
		names[i] = t.Name
	}
	return names
}

// OfEnvironment lists the tasks of an environment.
func OfEnvironment(environment string) []Task {
	return slices.DeleteFunc(slices.Clone(table), func(t Task) bool { return t.Environment != environment })
}

// OfWorkflow returns the name of the task that plays the workflows of a class.
func OfWorkflow(class string, generated, talks bool) string {
	at := slices.IndexFunc(table, func(t Task) bool {
		return t.Class == class && t.Generated == generated && t.Talks == talks
	})
	if class == "" || at < 0 {
		return ""
	}
	return table[at].Name
}

// Describe is what an agent does in episodes of these tasks: a verb and the noun of its object,
// which is "episodes" if the tasks differ, if there are none, or if one is unknown.
func Describe(names ...string) (verb, noun string) {
	for i, name := range names {
		task, ok := Find(name)
		if !ok || i > 0 && task.Noun != noun {
			return "Passes", "episodes"
		}
		if i > 0 && task.Verb != verb {
			task.Verb = "Passes"
		}
		verb, noun = task.Verb, task.Noun
	}
	return cmp.Or(verb, "Passes"), cmp.Or(noun, "episodes")
}

// mixedPassScore is the pass score of a run whose tasks have different ones.
const mixedPassScore = 800_000

// PassScore is the pass score of a run of these tasks that sets none, in micro-points: the one that
// all of them share, or 0.8 if they differ, if there are none, or if one is unknown.
func PassScore(names ...string) int64 {
	shared := int64(mixedPassScore)
	for i, name := range names {
		task, ok := Find(name)
		if !ok || i > 0 && task.PassScore != shared {
			return mixedPassScore
		}
		shared = task.PassScore
	}
	return shared
}
