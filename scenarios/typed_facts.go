package scenarios

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/source"
)

// nextStep is the name and the id of the fact that says what was done about a ticket.
const nextStep = "next_step"

// Required are the facts that an agent must state: those of the file, and the next step of a ticket
// that is resolved. The first value of each is the usual one.
func (t *Ticket) Required() []facts.Wanted {
	out := wantedFacts(t.Reply.Facts, false)
	if len(t.Reply.NextSteps) > 0 && !t.Gold.Escalate {
		out = append(out, facts.Wanted{ID: nextStep, What: nextStep, Values: t.Reply.NextSteps})
	}
	return out
}

// Optional are true facts that an agent may state: also that it explained something, that it
// refused what the ticket's facts deny, and that it handed the ticket over.
func (t *Ticket) Optional() []facts.Wanted {
	listed := slices.Concat(wantedFacts(t.Reply.Facts, true), t.Reply.True)
	steps := []string{"explained"}
	if slices.ContainsFunc(t.Reply.Facts, func(f Fact) bool { return f.Negative && !f.Optional }) {
		steps = append(steps, "refused")
	}
	if t.Gold.Escalate {
		steps = append(steps, "handed_over")
	}
	return append(listed, facts.Wanted{ID: nextStep, What: nextStep, Values: steps})
}

// Required are the facts that an agent must state. The first value of each is the usual one.
func (w *Workflow) Required() []facts.Wanted { return wantedFacts(w.Facts, false) }

// Optional are true facts that an agent may state, in a written workflow also what is done.
func (w *Workflow) Optional() []facts.Wanted {
	listed := slices.Concat(wantedFacts(w.Facts, true), w.True)
	if w.Policy != nil {
		return listed
	}
	done := []string{"explained"}
	for _, s := range w.Steps {
		if tool := desk.FindTool(s.Action); tool != nil && tool.NextStep != "" {
			done = append(done, tool.NextStep)
		}
	}
	if len(done) == 1 {
		done = append(done, "refused")
	}
	return append(listed, facts.Wanted{ID: nextStep, What: nextStep, Values: done})
}

// Right are the right values of a fact, the usual one first, or the words of one that only a model
// can read.
func (f *Fact) Right() []string {
	if f.What == "" {
		return []string{f.Value}
	}
	return append([]string{f.Stated}, f.Also...)
}

// NextStep says what is right to do about a ticket.
func (t *Ticket) NextStep() string {
	step := "what the facts say"
	switch {
	case t.Gold.Escalate:
		step = "the matter is handed over to the team " + t.Gold.Team
	case len(t.Reply.NextSteps) > 0:
		step = strings.Join(t.Reply.NextSteps, " or ")
	case t.Decision != nil:
		step = strings.ReplaceAll(t.Decision.Outcome, "+", ", and ")
	}
	return strings.ReplaceAll(step, "_", " ")
}

func wantedFacts(all []Fact, optional bool) []facts.Wanted {
	var out []facts.Wanted
	for _, f := range all {
		if !f.Judged && f.Optional == optional {
			out = append(out, facts.Wanted{ID: f.ID, What: f.What, Values: append([]string{f.Stated}, f.Also...)})
		}
	}
	return out
}

// canonicalValue renders the value of a fact. Values of an enum have the form of the vocabulary, so
// that a param may draw words: "damaged box" is damaged_box.
func (in *instance) canonicalValue(pos source.Position, what string, value expr.Text) string {
	v := in.Text(value)
	n, known := facts.Find(what)
	switch {
	case in.Err != nil:
	case !known:
		in.Fail(pos.Errorf("%q isn't a name of the vocabulary%s", what, source.SuggestWord(what, listNames())))
	case n.Type == facts.Enum:
		v = strings.ReplaceAll(strings.ToLower(v), " ", "_")
		if !slices.Contains(n.Values, v) {
			in.Fail(pos.Errorf("%q isn't a value of %s%s", v, what, source.SuggestWord(v, n.Values)))
		}
	}
	return v
}

// listNames are the names of the vocabulary.
func listNames() []string {
	names := make([]string, len(facts.Vocabulary()))
	for i, n := range facts.Vocabulary() {
		names[i] = n.What
	}
	return names
}
