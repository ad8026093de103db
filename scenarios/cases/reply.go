package cases

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

// replies are the words of right replies in one language.
type replies struct {
	greetings, closings      []*expr.Text
	unasked, second, worried string
	askWords                 []string
	outcomes                 map[string]*expr.Text // over the slots of a decision
	slots                    map[string]slotFile
	words                    map[string]string
}

func (c *compiler) compileReplies(f *repliesFile) *replies {
	r := &replies{greetings: c.compileAll(f.Metadata.ID, f.Greeting),
		closings: c.compileAll(f.Metadata.ID, f.Closing), unasked: f.Unasked, second: f.Second,
		worried: f.Worried, askWords: f.AskWords,
		outcomes: map[string]*expr.Text{}, slots: map[string]slotFile{}, words: map[string]string{}}
	if c.checkCode(f.Metadata.ID, f.Metadata.Pos); len(f.AskWords) == 0 {
		c.failf(f.Metadata.Pos, "ask_words has at least one word")
	}
	if len(f.Greeting) == 0 || len(f.Closing) == 0 {
		c.failf(f.Metadata.Pos, "greeting and closing need at least one wording each")
	}
	for _, s := range f.Slots {
		if strings.Count(s.Value.Says, "%s") != 1 {
			c.failf(s.Pos, "slot %s: says contains %%s once, in place of the value", s.Name)
		}
		r.slots[s.Name] = s.Value
	}
	slots := c.newTexts(f.Metadata.ID, slices.Sorted(maps.Keys(r.slots)))
	for _, o := range f.Outcomes {
		r.outcomes[o.Name] = c.compileWith(slots, o.Value)
	}
	for _, w := range f.Words {
		r.words[w.Name] = w.Value.Text
	}
	return r
}

// writeReply sets the facts and the reply: a part about each request.
func (r *replies) writeReply(out *Case, w *world, l *expr.Locale) error {
	for _, f := range out.Decision.Facts {
		slot, ok := r.slots[f.Slot]
		if !ok {
			return fmt.Errorf("the replies have no words for the slot %q", f.Slot)
		}
		what, err := f.What()
		if err != nil {
			return err
		}
		value := r.formatValue(f, slot, l)
		out.Facts = append(out.Facts,
			Statement{Slot: f.Slot, Value: value, What: what, Stated: cmp.Or(f.Word(), value)})
	}
	var b strings.Builder
	texts := newScope(w, l)
	b.WriteString(texts.say(pickItem(w, "greeting", r.greetings)))
	if out.Ticket != nil && out.Voice == worriedVoice {
		b.WriteString(" " + r.worried)
	}
	for i := range out.Decisions {
		outcome, values, err := r.describeDecision(&out.Decisions[i], l)
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
	b.WriteString(" " + texts.say(pickItem(w, "closing", r.closings)))
	out.Reply = b.String()
	return texts.Err
}

// describeDecision returns the sentences about a decision: the sentences of its outcome, and one
// for each value that these don't contain.
func (r *replies) describeDecision(d *desk.Decision, l *expr.Locale) (outcome, values string, err error) {
	words := r.outcomes[d.Outcome]
	if words == nil {
		return "", "", fmt.Errorf("the replies have no words for the outcome %q", d.Outcome)
	}
	placed := map[string]bool{}
	for e := range words.Expressions() {
		for _, slot := range e.Variables {
			placed[slot] = true
		}
	}
	texts := expr.Scope{Vals: expr.Values{}, Loc: l}
	var rest strings.Builder
	for _, f := range d.Facts {
		slot := r.slots[f.Slot]
		value := r.formatValue(f, slot, l)
		if placed[f.Slot] && texts.Vals[f.Slot] == nil {
			texts.Vals[f.Slot] = types.String(value)
		} else {
			rest.WriteString(" " + strings.Replace(slot.Says, "%s", value, 1))
		}
	}
	outcome = texts.Text(*words)
	if texts.Err != nil {
		return "", "", fmt.Errorf("the words for the outcome %q: %w", d.Outcome, texts.Err)
	}
	return outcome, rest.String(), nil
}

// formatValue is the text of a value.
func (r *replies) formatValue(f desk.Fact, slot slotFile, l *expr.Locale) string {
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
