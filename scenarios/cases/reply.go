package cases

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

// replies are the words of right replies in one language.
type replies struct {
	greeting, closing text
	unasked, worried  string
	outcomes          map[string]string
	slots             map[string]slotFile
	words             map[string][]string
}

func (c *compiler) replies(f *repliesFile) *replies {
	r := &replies{unasked: f.Unasked, worried: f.Worried, outcomes: map[string]string{}, slots: map[string]slotFile{},
		words: map[string][]string{}}
	var err error
	if r.greeting, err = parse(f.Greeting); err != nil {
		c.errs = append(c.errs, err)
	}
	if r.closing, err = parse(f.Closing); err != nil {
		c.errs = append(c.errs, err)
	}
	for _, o := range f.Outcomes {
		r.outcomes[o.Name] = o.Value
	}
	for _, s := range f.Slots {
		if strings.Count(s.Value.Says, "%s") != 1 {
			c.failf(s.Pos, "slot %s: says contains %%s once, in place of the value", s.Name)
		}
		r.slots[s.Name] = s.Value
	}
	for _, w := range f.Words {
		r.words[w.Name] = w.Value
	}
	return r
}

// write sets the facts and the reply.
func (r *replies) write(out *Case, w *world, l *expr.Locale) error {
	var b strings.Builder
	values := func(name string) (string, bool) { return values()[name](w, l), true }
	r.greeting.render(&b, values)
	if out.Ticket != nil && out.Voice == worriedVoice {
		b.WriteString(" " + r.worried)
	}
	for outcome := range strings.SplitSeq(out.Decision.Outcome, "+") {
		says, ok := r.outcomes[outcome]
		if !ok {
			return fmt.Errorf("the replies have no words for the outcome %q", outcome)
		}
		if !slices.Contains(out.Outcomes, says) {
			out.Outcomes = append(out.Outcomes, says)
			b.WriteString(" " + says)
		}
	}
	for _, f := range out.Decision.Facts {
		slot, ok := r.slots[f.Slot]
		if !ok {
			return fmt.Errorf("the replies have no words for the slot %q", f.Slot)
		}
		fact := Fact{Slot: f.Slot, Context: slot.Context}
		forms := r.forms(f, slot, l)
		fact.Value, fact.Accept = forms[0], forms[1:]
		out.Facts = append(out.Facts, fact)
		b.WriteString(" " + strings.Replace(slot.Says, "%s", fact.Value, 1))
	}
	b.WriteByte(' ')
	r.closing.render(&b, values)
	out.Reply = b.String()
	return nil
}

// forms are the texts of a value; the first one is used.
func (r *replies) forms(f desk.Fact, slot slotFile, l *expr.Locale) []string {
	switch {
	case f.Amount != 0:
		return []string{l.Money(int64(f.Amount))}
	case !f.Day.IsZero():
		return []string{l.Day(f.Day)}
	case f.Days != 0:
		return []string{strconv.FormatInt(f.Days, 10) + " " + slot.Unit}
	}
	if words := r.words[f.Text]; len(words) > 0 {
		return slices.Clone(words)
	}
	return []string{f.Text}
}
