package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
	"github.com/csenv/csenv/tasks"
)

// randomStream separates Random's draws from other uses of an episode's seed.
const randomStream = 0x63_73_65_6e_76

// random draws legal actions with equal probability. The episode's seed fixes its draws.
type random struct {
	ticket bool
	kind   desk.TaskKinds // of a workflow's task
	rand   *rand.Rand
}

func newRandom(ticket bool, planned score.PlannedEpisode) *random {
	//nolint:gosec // Draws must be repeatable, and nothing depends on their secrecy.
	r := &random{ticket: ticket, kind: desk.Written, rand: rand.New(rand.NewPCG(uint64(planned.Seed), randomStream))}
	if task, known := tasks.Find(planned.Task); known && task.Talks {
		r.kind = desk.Talks
	}
	return r
}

func (r *random) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	if r.ticket {
		return r.ticketAction(turn)
	}
	return r.workflowAction(turn)
}

func (r *random) pickOne(from []string) string { return from[r.rand.IntN(len(from))] }

// values lists the values that Random draws for an action's fields.
var values = map[string][]string{
	"category": scenarios.Categories,
	"priority": scenarios.Priorities,
	"query":    scenarios.Categories,
	"decision": {"resolve", "escalate"},
	"message": {"Thank you for your message.", "We are looking into it.", "Please try it again later.",
		"We are sorry for the trouble."},
	"team": {"finance", "logistics", "security", "safety", "incident", "privacy", "legal", "trust", "engineering"},
}

// fieldsOf lists the fields that Random sets, by the type of the action.
var fieldsOf = map[string][]string{
	"classify":              {"category", "priority"},
	"respond":               {"message"},
	"resolve":               {"message"},
	"escalate":              {"team"},
	"search_knowledge_base": {"query"},
	"submit":                {"category", "priority", "message", "decision"},
}

func (r *random) ticketAction(turn Turn) (json.RawMessage, error) {
	seen, err := decodeObservation[ticketView](turn)
	if err != nil {
		return nil, err
	}
	if len(seen.AllowedActions) == 0 {
		return nil, fmt.Errorf("the observation %.200s allows no action", turn.Observation)
	}
	kind := r.pickOne(seen.AllowedActions)
	if kind == "select_ticket" {
		open := slices.DeleteFunc(seen.Queue, queuedTicket.isClosed)
		return selectTicket(open[r.rand.IntN(len(open))].TicketID)
	}
	members := map[string]any{}
	for _, field := range fieldsOf[kind] {
		members[field] = r.pickOne(values[field])
		if field == "message" {
			members["facts"] = r.drawFacts()
		}
	}
	return encodeAction(kind, members)
}

// drawFacts draws a fact of the vocabulary with its example.
func (r *random) drawFacts() []facts.Fact {
	name := facts.Vocabulary[r.rand.IntN(len(facts.Vocabulary))]
	return []facts.Fact{{What: name.What, Value: name.Example}}
}

func (r *random) workflowAction(turn Turn) (json.RawMessage, error) {
	seen, err := decodeObservation[workflowView](turn)
	if err != nil {
		return nil, err
	}
	id := r.pickOne(append(findIDs(seen.UserQuery), "LD-000000"))
	tool := r.pickOne(desk.ListToolNames(r.kind))
	args := map[string]any{}
	for _, arg := range desk.FindTool(tool).Args {
		if tool == desk.Tell { // whose acts are drawn
			arg = strings.TrimSuffix(arg, "?")
		}
		switch arg { // those that the tool can't do without
		case "asks":
			args[arg] = []string{r.pickOne(talk.Topics)}
		case "offers", "confirms":
			args[arg] = []string{r.pickOne(desk.ListChanges())}
		case "order_id":
			args[arg] = id
		case "amount":
			args[arg] = 1 + r.rand.IntN(200)
		case "facts":
			args[arg] = r.drawFacts()
		case "topic":
			if tool == desk.LookUpPolicy && r.kind == desk.Talks {
				args[arg] = r.pickOne(append(desk.ListTopics(), desk.Conversations))
			}
		case "team", "message":
			args[arg] = r.pickOne(values[arg])
		}
	}
	return encodeCall(tool, args)
}
