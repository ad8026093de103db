package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// ticket returns the gold of a ticket. Two concurrent callers may both prepare it.
func (j *Judge) ticket(t *scenarios.Ticket) *facts.Gold {
	if g, ok := j.tickets.Get(t); ok {
		return g
	}
	texts := append(t.ServedTexts(), t.Customer.Name, t.Customer.Company)
	for _, a := range t.Articles {
		texts = append(texts, a.Title, a.Body)
	}
	values := []string{formatDay(t.Customer.Since), strconv.Itoa(t.SLAMinutes) + " minutes"}
	for _, m := range t.History {
		values = append(values, formatDay(m.At))
	}
	for _, v := range t.Reply.AllowedValues {
		if !slices.Contains(texts, v) {
			values = append(values, v)
		}
	}
	g := j.library.Gold(facts.NewContext(t.Language, t.Now), facts.Served{Texts: texts, Values: values}, t.Required(),
		t.Optional(), t.Reply.Closed)
	j.tickets.Add(t, g)
	return g
}

// workflow returns the gold of a workflow.
func (j *Judge) workflow(w *scenarios.Workflow) *facts.Gold {
	if g, ok := j.workflows.Get(w); ok {
		return g
	}
	texts, values := []string{w.Query, w.Customer.Name}, []string(nil)
	for _, a := range w.Answers {
		texts = append(texts, a.Answer)
	}
	for _, s := range w.Steps {
		texts = append(texts, s.Answer)
	}
	if !w.Closed {
		values = slices.Concat(w.AllowedValues, deskValues(w))
		texts = append(texts, Records(w))
		if w.Policy != nil {
			texts = append(texts, desk.PolicyDocument())
		}
	}
	g := j.library.Gold(facts.NewContext(w.Language, w.Now), facts.Served{Texts: texts, Values: values}, w.Required(),
		w.Optional(), w.Closed)
	j.workflows.Add(w, g)
	return g
}

// deskValues are the amounts and days of the records, the numbers of the policy with their units,
// and its days of the year (RET-4, DMG-9).
func deskValues(w *scenarios.Workflow) []string {
	if w.Policy == nil {
		return nil
	}
	values := append(w.Policy.Texts(), fmt.Sprintf("January %d", w.Policy.HolidayDay),
		fmt.Sprintf("December %d", w.Policy.FreezeDay))
	for _, f := range w.Records.Values() {
		values = append(values, f.String())
	}
	return values
}

// Records is the JSON of what tools look up.
func Records(w *scenarios.Workflow) string {
	var state any = w.Records
	if w.Rules.PlainRecords {
		state = w.Records.Plain()
	}
	text, err := json.Marshal(state)
	if err != nil {
		panic(err) // The state has plain fields alone.
	}
	return string(text)
}

func formatDay(t time.Time) string { return t.Format(time.DateOnly) }
