package cases

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// ownLines are the lines of conversations that have values of the case, beside talk.LineNames.
var ownLines = []string{"correct.order", "delivered", "correct.delivery_day", "address", "wish.refund",
	"wish.replacement", "wish.any", "rethink.refund", "rethink.replacement", "rethink.address"}

// compileLines compiles the lines of a language.
func (c *compiler) compileLines(f *talkFile) map[string]map[string]*expr.Text {
	c.checkCode(f.Metadata.ID, f.Metadata.Pos)
	lines := map[string]map[string]*expr.Text{}
	required := talk.LineNames()
	for _, line := range f.Lines {
		places, known := required[line.Name]
		if !known && !slices.Contains(ownLines, line.Name) {
			c.failf(line.Pos, "there is no line %q: it is one of %s", line.Name, strings.Join(listLines(), ", "))
		}
		lines[line.Name] = map[string]*expr.Text{}
		for _, voice := range line.Value {
			if strings.Contains(voice.Value.Text, "%s") != places {
				c.failf(voice.Pos, "line %s: %%s stands for what it is about, where it is about something", line.Name)
			}
			lines[line.Name][voice.Name] = c.compileText(f.Metadata.ID, voice.Value)
		}
	}
	for _, name := range listLines() {
		if lines[name][anyVoice] == nil {
			c.failf(f.Metadata.Pos, "lines.%s has no text of voice %q", name, anyVoice)
		}
	}
	return lines
}

func listLines() []string {
	return slices.Concat(slices.Sorted(maps.Keys(talk.LineNames())), ownLines)
}

// listTalks adds the cases of other lists as conversations.
func (s *Set) listTalks(c *compiler, file string, f *listFile) {
	if f.Talk != (len(f.Like) > 0) || f.Talk && len(f.Cases) > 0 {
		c.failf(f.Metadata.Pos, "a list with talk: true names lists under like, and no cases")
		return
	}
	for _, id := range f.Like {
		found := false
		for _, listed := range s.listed { // without those that are added here
			if listed.list != id || listed.Tickets || listed.Talks {
				continue
			}
			found = true
			talking := *listed
			talking.ID, talking.File, talking.list = f.Metadata.ID+"-"+listed.ID, file, f.Metadata.ID
			talking.Talks = true
			switch {
			case s.lines[talking.Language] == nil:
				c.failf(f.Metadata.Pos, "customers have no lines in %q: add names/talk-%s.yaml", talking.Language,
					talking.Language)
				return
			case len(talking.ID) > maxID:
				c.failf(f.Metadata.Pos, "the id %s has more than %d characters: give the list a shorter id", talking.ID,
					maxID)
				return
			}
			s.listed = append(s.listed, &talking)
		}
		if !found {
			c.failf(f.Metadata.Pos, "like: no list %q has cases", id)
		}
	}
}

// drawnTalk is how a customer behaves in a conversation. Everything is drawn from streams of its
// own, whatever is right.
type drawnTalk struct {
	// order is the id that the customer first gives instead of the order's, "" if they don't.
	order string
	// opens means that order stands in the first message.
	opens bool
	// late are the modifiers of which the customer speaks in the first answer.
	late []*modifier
	// rethinks is the wish that the customer states after the first message: refund, replacement or
	// address, "" for none.
	rethinks string
	// address is the one that they want in the end.
	address string
}

// misleads reports whether the first message has a wrong id of the order.
func (t *drawnTalk) misleads() bool { return t != nil && t.order != "" && t.opens }

// isLate reports whether the customer speaks of a modifier only later.
func (t *drawnTalk) isLate(m *modifier) bool { return t != nil && slices.Contains(t.late, m) }

// chance reports true once in so many cases.
func (w *world) chance(name string, in int) bool { return w.below("talk."+name, in) == 0 }

// drawTalk draws the customer of a conversation, and makes the requests those that they have in the
// end.
func (c *Composition) drawTalk(w *world, requests []desk.Request) *drawnTalk {
	w.policy.Talks = true
	t := &drawnTalk{opens: !c.hides(), address: w.address}
	first := &requests[0]
	switch first.Kind {
	case "damaged", "defective":
		if w.chance("rethink", 3) {
			if t.rethinks = "refund"; first.Wish == "refund" {
				t.rethinks = "replacement"
			}
			first.Wish = t.rethinks
		}
	case "address":
		if w.chance("rethink", 3) {
			t.rethinks = "address"
			at := slices.Index(w.goods.Addresses, w.address)
			for t.address == w.address || t.address == w.Orders[0].Address {
				at++
				t.address = w.goods.Addresses[at%len(w.goods.Addresses)]
			}
			first.Value = t.address
		}
	}
	if w.chance("order.wrong", 4) {
		t.order = misspell(w.Orders[0].ID, w.below("talk.order.digit", 9))
	}
	for _, m := range c.modifiers {
		mayWait := m.Request.Wish == "" || t.rethinks == ""
		if len(m.says) > 0 && (m.Later || w.chance("late."+m.Metadata.ID, 2) && mayWait) {
			t.late = append(t.late, m)
		}
	}
	return t
}

// misspell returns an id whose last digit is another one.
func misspell(id string, by int) string {
	last := len(id) - 1
	return id[:last] + string('0'+(id[last]-'0'+byte(1+by))%10)
}

// listRemedies are the tools that may settle a request, by its kind.
func listRemedies(kind string) []string {
	switch kind {
	case "damaged", "defective", "wrong_item", "parcel", "not_found":
		return []string{desk.Replacing, desk.Refunding, desk.Crediting}
	case "address":
		return []string{desk.Readdressing}
	case "cancel":
		return []string{desk.Cancelling, desk.Refunding, desk.Crediting}
	case "data_request", "email_change", "merge", "return_deadline", "warranty_end":
		return nil
	}
	return []string{desk.Refunding, desk.Crediting}
}

// script writes the customer of a conversation.
type script struct {
	*talk.Script

	c     *Composition
	w     *world
	texts *scope
}

// writeTalk adds the customer of a conversation, and to the first message what they tell there.
func (c *Composition) writeTalk(out *Case, w *world, texts *scope) {
	s := &script{c: c, w: w, texts: texts, Script: &talk.Script{Language: c.Language, Voice: out.Voice,
		Insists: 1 + w.below("talk.insists", talk.MaxInsists), Patience: 6 + w.below("talk.patience", 7),
		FirstAddress: w.address, Address: w.talk.address, Lines: map[string]string{"exhausted": out.Unasked},
		Context: facts.NewContext(c.Language, w.now)}}
	if w.chance("mood", 3) {
		s.Mood = 1
	}
	for name := range talk.LineNames() {
		s.Lines[name] = s.line(name)
	}
	for _, r := range out.Requests {
		s.Serves = appendNew(s.Serves, listRemedies(r.Kind))
	}
	for _, tool := range s.Serves {
		if !w.chance("accepts."+tool, 4) {
			s.Accepts = append(s.Accepts, tool)
		}
	}
	s.Serves, s.Accepts = append(s.Serves, desk.Escalating), append(s.Accepts, desk.Escalating)
	s.Orders = append(s.Orders, w.Orders[0].ID)
	for _, sub := range w.Subscriptions {
		s.Orders = append(s.Orders, sub.ID)
	}
	s.addOrder(out)
	s.addAnswers(out)
	s.addDelivery(out)
	s.addWish(out)
	s.addFirst()
	out.Talk = s.Script
}

// line is the text of a line in the customer's voice.
func (s *script) line(name string) string {
	return s.texts.say(findWording(s.c.set.lines[s.c.Language], name, s.Voice))
}

// act is an act with a text whose values are known to the case.
func (s *script) act(kind talk.Kind, topic string, t *expr.Text) talk.Act {
	return talk.Act{Kind: kind, Topic: topic, Values: s.valuesOf(t), Words: s.texts.say(t)}
}

func (s *script) lineAct(kind talk.Kind, topic, name string) talk.Act {
	return s.act(kind, topic, findWording(s.c.set.lines[s.c.Language], name, s.Voice))
}

// with writes with another value of a variable.
func (s *script) with(name, value string, write func()) {
	before := s.texts.Vals[name]
	s.texts.Vals[name] = types.String(value)
	write()
	if s.texts.Vals[name] = before; before == nil {
		delete(s.texts.Vals, name)
	}
}

// addOrder adds what the customer tells about the order's id.
func (s *script) addOrder(out *Case) {
	w := s.w
	shown := w.Orders[0].ID
	if w.talk.misleads() {
		shown = w.talk.order
	}
	said := strings.Contains(out.Query, shown)
	if !said && !s.c.hides() {
		return // The message isn't about an order.
	}
	says := s.c.findAnswer(orderValue).says
	tell := s.act(talk.Tell, talk.AboutOrder, findWording(says, s.c.Language, s.Voice))
	topic := talk.Topic{Name: talk.AboutOrder, Tell: tell, Said: said,
		Evades: !said && s.c.later() == nil && w.chance("order.again", 3)}
	if w.talk.order != "" {
		s.with(orderValue, w.talk.order, func() {
			wrong := s.act(talk.Tell, talk.AboutOrder, findWording(says, s.c.Language, s.Voice))
			topic.Mistake = &wrong
		})
		correct := s.lineAct(talk.Correct, talk.AboutOrder, "correct.order")
		topic.Correction = &correct
	}
	s.Topics = append(s.Topics, topic)
}

// addAnswers adds what only the customer knows.
func (s *script) addAnswers(out *Case) {
	for _, a := range out.Answers {
		if a.Topic == orderValue {
			continue
		}
		says := findWording(s.c.findAnswer(a.Topic).says, s.c.Language, s.Voice)
		s.Topics = append(s.Topics, talk.Topic{Name: a.Topic, Tell: s.act(talk.Tell, a.Topic, says),
			Evades: s.w.chance(a.Topic+".again", 4)})
	}
}

// addDelivery adds what the customer tells about the day of the delivery, which may be a day off.
func (s *script) addDelivery(out *Case) {
	w := s.w
	about := []string{"return", "return_deadline", "damaged", "defective", "wrong_item", "warranty_end"}
	if len(w.Shipments) == 0 || w.Shipments[0].Delivered.IsZero() || !slices.Contains(about, out.Requests[0].Kind) ||
		slices.Contains(s.c.Modifiers, "claims-later-delivery") {
		return
	}
	topic := talk.Topic{Name: talk.AboutDelivery, Said: w.chance("delivery.said", 3),
		Tell: s.lineAct(talk.Tell, talk.AboutDelivery, "delivered")}
	first := topic.Tell
	if w.chance("delivery.wrong", 2) {
		off := w.Shipments[0].Delivered.AddDate(0, 0, 1-2*w.below("talk.delivery.off", 2))
		s.with("delivered", s.texts.Loc.Day(off), func() {
			first = s.lineAct(talk.Tell, talk.AboutDelivery, "delivered")
		})
		first.Values = []facts.Wanted{{What: "delivered_on", Values: []string{off.Format(time.DateOnly)}}}
		correct := s.lineAct(talk.Correct, talk.AboutDelivery, "correct.delivery_day")
		topic.Mistake, topic.Correction = &first, &correct
	}
	if topic.Said {
		out.Query += " " + first.Words
	}
	s.Topics = append(s.Topics, topic)
}

// addWish adds what the customer answers about the remedy or the address that they want.
func (s *script) addWish(out *Case) {
	switch r := out.Requests[0]; r.Kind {
	case "damaged", "defective":
		name := map[string]string{"": "wish.any", "refund": "wish.refund", "replacement": "wish.replacement"}[r.Wish]
		s.Topics = append(s.Topics, talk.Topic{Name: talk.AboutWish, Tell: s.lineAct(talk.Tell, talk.AboutWish, name)})
	case "address":
		if s.w.talk.rethinks == "" {
			s.Topics = append(s.Topics, talk.Topic{Name: talk.AboutAddress, Said: true,
				Tell: s.lineAct(talk.Tell, talk.AboutAddress, "address")})
		}
	}
}

// addFirst adds what comes with the first answer, and another wish.
func (s *script) addFirst() {
	if s.c.later() != nil {
		topic := s.Topics[0] // A later request comes with the order's id.
		if topic.Mistake != nil {
			topic.Tell = *topic.Mistake
		}
		s.First = append(s.First, topic.Tell)
	}
	for _, m := range s.w.talk.late {
		kind, about := talk.Tell, ""
		if m.Also != nil {
			kind, about = talk.Request, m.Also.Kind
		}
		s.First = append(s.First, s.act(kind, about, m.says[s.c.Language][s.Voice]))
	}
	switch wish := s.w.talk.rethinks; wish {
	case "":
	case "address":
		s.with("address", s.Address, func() {
			act := s.lineAct(talk.Rethink, desk.Readdressing, "rethink.address")
			act.Values = []facts.Wanted{{What: "place", Values: []string{s.Address}}}
			s.Rethinks = &act
		})
	default:
		s.First = append(s.First, s.lineAct(talk.Rethink, s.c.family.Request.Kind, "rethink."+wish))
	}
}

// valuesOf are the values that a text states, by the names of the vocabulary of facts.
func (s *script) valuesOf(t *expr.Text) (out []facts.Wanted) {
	for e := range t.Expressions() {
		for _, name := range e.Variables {
			what := factNames[name]
			if what == "" || slices.ContainsFunc(out, func(w facts.Wanted) bool { return w.ID == name }) {
				continue
			}
			value := values()[name](s.w, s.texts.Loc)
			if given := s.texts.Vals[name]; given != nil {
				value, _ = given.Value().(string)
			}
			out = append(out, facts.Wanted{ID: name, What: what, Values: []string{value}})
		}
	}
	return out
}

// factNames are the names of the vocabulary of facts by the variables of texts.
var factNames = map[string]string{
	orderValue: "reference", "tracking": "reference", "serial": "reference", "product": "property", "plan": "property",
	"cheaper": "property", "email": "property", "carrier": "carrier", "address": "place", "price": "price",
	"list": "price", "total": "price", "fee": "price", "duty": "price", "monthly": "price", "quantity": "count",
	"unshipped": "count", "hours": "period", "delivered": "delivered_on", "placed": "starts_on",
	"promised": "arrives_by", "renewed": "starts_on",
}
