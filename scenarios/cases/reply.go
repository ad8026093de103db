package cases

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

// replies are the words of right replies in one language.
type replies struct {
	greetings, closings      []text
	unasked, second, worried string
	askWords                 []string
	outcomes                 map[string]string
	slots                    map[string]slotFile
	words                    map[string]string
}

func (c *compiler) replies(f *repliesFile) *replies {
	r := &replies{greetings: c.texts(f.Greeting), closings: c.texts(f.Closing), unasked: f.Unasked, second: f.Second,
		worried: f.Worried, askWords: f.AskWords,
		outcomes: map[string]string{}, slots: map[string]slotFile{}, words: map[string]string{}}
	if c.language(f.Metadata.ID, f.Metadata.Pos); len(f.AskWords) == 0 {
		c.failf(f.Metadata.Pos, "ask_words has at least one word")
	}
	if len(f.Greeting) == 0 || len(f.Closing) == 0 {
		c.failf(f.Metadata.Pos, "greeting and closing need at least one wording each")
	}
	for _, o := range f.Outcomes {
		r.outcomes[o.Name] = o.Value.Text
	}
	for _, s := range f.Slots {
		if strings.Count(s.Value.Says, "%s") != 1 {
			c.failf(s.Pos, "slot %s: says contains %%s once, in place of the value", s.Name)
		}
		r.slots[s.Name] = s.Value
	}
	for _, w := range f.Words {
		r.words[w.Name] = w.Value.Text
	}
	return r
}

// write sets the facts and the reply: a part about each request.
func (r *replies) write(out *Case, w *world, l *expr.Locale) error {
	for _, f := range out.Decision.Facts {
		slot, ok := r.slots[f.Slot]
		if !ok {
			return fmt.Errorf("the replies have no words for the slot %q", f.Slot)
		}
		what, err := f.What()
		if err != nil {
			return err
		}
		value := r.text(f, slot, l)
		out.Facts = append(out.Facts, Statement{Slot: f.Slot, Value: value, What: what, Stated: cmp.Or(f.Word(), value)})
	}
	var b strings.Builder
	values := func(name string) (string, bool) { return values()[name](w, l), true }
	pickItem(w, "greeting", r.greetings).render(&b, values)
	if out.Ticket != nil && out.Voice == worriedVoice {
		b.WriteString(" " + r.worried)
	}
	for i := range out.Decisions {
		outcome, values, err := r.about(&out.Decisions[i], l)
		if err != nil {
			return err
		}
		about := outcome + values
		if strings.Contains(b.String(), about) {
			continue // One hand-over is enough for both requests.
		}
		if i > 0 && r.second != "" {
			b.WriteString(" " + r.second)
		}
		b.WriteString(" " + about)
	}
	b.WriteByte(' ')
	pickItem(w, "closing", r.closings).render(&b, values)
	out.Reply = b.String()
	return nil
}

// about returns the sentences about a decision: those of its outcome, and one for each value that
// these don't contain.
func (r *replies) about(d *desk.Decision, l *expr.Locale) (outcome, values string, err error) {
	outcome, ok := r.outcomes[d.Outcome]
	if !ok {
		return "", "", fmt.Errorf("the replies have no words for the outcome %q", d.Outcome)
	}
	var rest strings.Builder
	for _, f := range d.Facts {
		slot := r.slots[f.Slot]
		value, mark := r.text(f, slot, l), "{{"+f.Slot+"}}"
		if strings.Contains(outcome, mark) {
			outcome = strings.ReplaceAll(outcome, mark, value)
		} else {
			rest.WriteString(" " + strings.Replace(slot.Says, "%s", value, 1))
		}
	}
	if strings.Contains(outcome, "{{") {
		return "", "", fmt.Errorf("the words for the outcome %q name a slot that it doesn't have: %q", d.Outcome,
			outcome)
	}
	return outcome, rest.String(), nil
}

// text is the text of a value.
func (r *replies) text(f desk.Fact, slot slotFile, l *expr.Locale) string {
	switch {
	case f.Amount != 0:
		return l.Money(int64(f.Amount))
	case !f.Day.IsZero():
		return l.Day(f.Day)
	case f.Days != 0:
		return strconv.FormatInt(f.Days, 10) + " " + slot.Unit
	}
	return cmp.Or(r.words[f.Text], f.Text)
}
