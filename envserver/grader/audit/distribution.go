package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios"
)

// Marginal counts the tickets with a common property, at seed 0.
type Marginal struct {
	// Of is the common property, such as "category billing".
	Of string
	// Counts are by column, see Columns. A column without tickets is left out.
	Counts map[string]int
}

// ListColumns are the columns of a marginal in the order of the table.
func ListColumns() []string {
	return slices.Concat([]string{"tickets"}, scenarios.Categories, scenarios.Priorities,
		[]string{"escalate", "resolve", "basic", "premium", "enterprise"})
}

// CountMarginals counts the tickets of a catalogue at seed 0. Rows are in the order of Columns, or
// alphabetical.
func CountMarginals(c *scenarios.Catalog) ([]Marginal, error) {
	var rows []Marginal
	count := func(of string, columns []string) {
		i := slices.IndexFunc(rows, func(m Marginal) bool { return m.Of == of })
		if i < 0 {
			i, rows = len(rows), append(rows, Marginal{of, map[string]int{}})
		}
		for _, column := range columns {
			rows[i].Counts[column]++
		}
	}
	tickets := make([]*scenarios.Ticket, 0, len(c.Tickets()))
	for _, s := range c.Tickets() {
		t, err := s.Instantiate(0)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
		}
		tickets = append(tickets, t)
	}
	for kind := range ticketTraits(c, &scenarios.Ticket{}) {
		from := len(rows)
		for _, t := range tickets {
			count(ticketTraits(c, t)[kind], columnsOf(t))
		}
		slices.SortFunc(rows[from:], func(a, b Marginal) int {
			return cmp.Or(columnIndex(a)-columnIndex(b), strings.Compare(a.Of, b.Of))
		})
	}
	return rows, nil
}

// columnIndex returns the column of a marginal's property.
func columnIndex(m Marginal) int {
	_, value, ok := strings.Cut(m.Of, " ")
	if !ok {
		value = m.Of
	}
	return slices.Index(ListColumns(), value)
}

// ticketTraits names the rows in which a ticket is counted.
func ticketTraits(c *scenarios.Catalog, t *scenarios.Ticket) []string {
	s, ok := c.Ticket(t.ScenarioID)
	if !ok {
		s = &scenarios.TicketScenario{}
	}
	cue := "cue right"
	if NewCueReader(c)(t) != t.Gold.Category {
		cue = "cue wrong"
	}
	return []string{
		"all", "category " + t.Gold.Category, "priority " + t.Gold.Priority, ticketEnding(t),
		"level " + t.Customer.AccountLevel, "tone " + t.Tone, cue, "language " + t.Language, "split " + s.Split,
	}
}

func ticketEnding(t *scenarios.Ticket) string {
	if t.Gold.Escalate {
		return "escalate"
	}
	return "resolve"
}

func columnsOf(t *scenarios.Ticket) []string {
	return []string{"tickets", t.Gold.Category, t.Gold.Priority, ticketEnding(t), t.Customer.AccountLevel}
}
