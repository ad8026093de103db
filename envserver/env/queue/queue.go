package queue

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/csenv/csenv/scenarios"
)

// Queue is a scenario of the task: the tickets in the order of their arrival. The episode's seed
// instantiates them.
type Queue struct {
	// ID is Q001 and so on. A queue keeps its id when other splits grow.
	ID    string
	Split string
	// Tickets are the ids of the scenarios.
	Tickets [Size]string
	// Language is the tickets' common one, "mul" (BCP 47) if they have several.
	Language string
}

// splitQueues describes the queues of a split: their first number and their maximum count.
type splitQueues struct {
	split        string
	first, count int
}

func allSplits() []splitQueues {
	return []splitQueues{{"public-train", 1, 60}, {"public-dev", 61, 20}, {"public-test", 81, 20}, {"private", 101, 40}}
}

// maxTries bounds the search for a new valid composition.
const maxTries = 200

// ComposeQueues makes the queues of a catalogue, ordered by id. The tickets of a queue are of one
// split and not generated. By their gold at seed 0, at least one is urgent, one low or medium, two
// or three must be escalated, and there are three or more categories; other seeds may change that.
// No two queues of a split contain the same tickets. A queue's tickets depend only on the ids of
// the split's tickets.
func ComposeQueues(catalog *scenarios.Catalog) []Queue {
	bySplit := map[string][]candidate{}
	for _, s := range catalog.Tickets() {
		if s.Generated() {
			continue
		}
		bySplit[s.Split] = append(bySplit[s.Split], candidate{s, Case{Priority: s.Priority, Escalate: s.Escalate}})
	}
	var queues []Queue
	for _, s := range allSplits() {
		queues = append(queues, s.compose(bySplit[s.split])...)
	}
	return queues
}

// Instantiate draws the tickets of a queue of the catalogue, in the order of their arrival. They
// share the time and the articles: see scenarios.DrawTickets.
func (q Queue) Instantiate(catalog *scenarios.Catalog, seed int64) ([]*scenarios.Ticket, error) {
	drawn := make([]*scenarios.TicketScenario, len(q.Tickets))
	for i, id := range q.Tickets {
		var ok bool
		if drawn[i], ok = catalog.Ticket(id); !ok {
			return nil, fmt.Errorf("queue %s has the unknown ticket %s", q.ID, id)
		}
	}
	together, err := scenarios.DrawTickets(drawn, seed)
	tickets := make([]*scenarios.Ticket, len(together))
	for i := range together {
		if err == nil {
			tickets[i], err = together[i].Complete()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", q.ID, err)
	}
	return tickets, nil
}

// CaseOf returns the properties that the ticket's weighted score depends on.
func CaseOf(t *scenarios.Served) Case {
	return Case{Priority: t.Gold.Priority, Escalate: t.Gold.Escalate}
}

// candidate is a ticket that a queue may draw.
type candidate struct {
	scenario *scenarios.TicketScenario
	gold     Case
}

func (s splitQueues) compose(from []candidate) []Queue {
	if len(from) < Size {
		return nil
	}
	var queues []Queue
	used := map[[Size]string]bool{}
	for n := s.first; n < s.first+s.count; n++ {
		id := fmt.Sprintf("Q%03d", n)
		for try := range maxTries {
			drawn := drawTickets(id, try, from)
			set := idsOf(drawn)
			slices.Sort(set[:])
			if isValidDraw(drawn) && !used[set] {
				used[set] = true
				queues = append(queues,
					Queue{ID: id, Split: s.split, Tickets: idsOf(drawn), Language: chooseLanguage(drawn)})
				break
			}
		}
	}
	return queues
}

// drawTickets ranks the tickets by a hash of both ids and takes the first ones, so that a new
// ticket changes few queues.
func drawTickets(id string, try int, from []candidate) []candidate {
	ranks := make(map[string][sha256.Size]byte, len(from))
	for _, c := range from {
		ranks[c.scenario.ID] = sha256.Sum256(fmt.Appendf(nil, "csenv queue\n%s\n%d\n%s", id, try, c.scenario.ID))
	}
	return slices.SortedFunc(slices.Values(from), func(a, b candidate) int {
		rankA, rankB := ranks[a.scenario.ID], ranks[b.scenario.ID]
		return cmp.Or(bytes.Compare(rankA[:], rankB[:]), cmp.Compare(a.scenario.ID, b.scenario.ID))
	})[:Size]
}

func idsOf(drawn []candidate) [Size]string {
	var ids [Size]string
	for i, c := range drawn {
		ids[i] = c.scenario.ID
	}
	return ids
}

// isValidDraw reports whether order and escalations matter in a queue of the tickets.
func isValidDraw(drawn []candidate) bool {
	var urgent, idle, escalations int
	categories := map[string]bool{}
	for _, c := range drawn {
		categories[c.scenario.Category] = true
		switch c.gold.Priority {
		case "urgent":
			urgent++
		case "low", "medium":
			idle++
		}
		if c.gold.Escalate {
			escalations++
		}
	}
	return urgent > 0 && idle > 0 && (escalations == 2 || escalations == 3) && len(categories) >= 3
}

func chooseLanguage(drawn []candidate) string {
	common := drawn[0].scenario.Language
	if slices.ContainsFunc(drawn, func(c candidate) bool { return c.scenario.Language != common }) {
		return "mul"
	}
	return common
}
