// Package cases draws cases for a support desk: a family says what kind of case it is, modifiers
// change it, a seed draws the records and the numbers of the policy, and the policy decides what is
// right. Neither families nor modifiers say what the right handling is.
package cases

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// Case is an instance of a composition. It is immutable.
type Case struct {
	Now     time.Time
	Policy  *desk.Policy
	Records desk.Records
	// Query is what the customer writes.
	Query string
	// Voice is the one in which the customer writes.
	Voice    string
	Requests []desk.Request
	// Decisions are those about the requests, in their order, and Decision is all of them.
	Decisions []desk.Decision
	Decision  desk.Decision
	// Questions are those that the decision depends on, in order. Answers are what the customer
	// says about every topic that the policy may require of such a request, whatever the
	// decision, so that an answer doesn't tell what is right.
	Questions, Answers []Answer
	Faults             []desk.Fault
	// Facts are what the reply must state, in the case's language, and Reply is one.
	Facts []Statement
	Reply string
	// True are what the reply may tell besides, nil if it must not tell anything.
	True []facts.Wanted
	// Unasked is the customer's answer to a question about anything else.
	Unasked string
	// AskWords are the beginnings of words that make a sentence without a question mark a question.
	AskWords []string
	// Ticket is what only a ticket has, nil for a case of the workflow environment.
	Ticket *Ticket
	// Talk is the customer of a conversation, nil for other cases.
	Talk *talk.Script
}

// Answer is what only the customer knows.
type Answer struct {
	Topic string
	// About are words of which a question about the topic contains one.
	About  []string
	Answer string
}

// Statement is a fact in the words of a language. What and Stated are its name in the vocabulary
// and the value as an agent states it.
type Statement struct {
	Slot, Value, What, Stated string
}

// Instantiate draws a case. The same salt, version and seed always give the same case.
func (c *Composition) Instantiate(salt string, seed int64) (*Case, error) {
	out, err := c.drawWorld(expr.NewStreamKey(salt, c.Key(), c.Version(), seed))
	if err != nil {
		return nil, fmt.Errorf("case %s, seed %d: %w", c.Key(), seed, err)
	}
	return out, nil
}

func (c *Composition) drawWorld(key expr.StreamKey) (*Case, error) {
	w := c.newWorld(key)
	out, err := c.decide(w)
	if err != nil {
		return nil, err
	}
	return out, c.writeTexts(out, w)
}

func (c *Composition) newWorld(key expr.StreamKey) *world {
	return &world{key: key, specs: c.specs, goods: c.set.goods, language: c.Language, people: c.set.people[c.Language]}
}

// decide draws the records and decides the requests. It writes no texts.
func (c *Composition) decide(w *world) (*Case, error) {
	w.build()
	out := &Case{Now: w.now, Policy: &w.policy, Records: w.Records}
	requests := c.drawRequests(w)
	if c.Talks {
		w.talk = c.drawTalk(w, requests)
	}
	for i, r := range requests {
		d, err := desk.DecideRequest(desk.Desk{Now: w.now, Policy: &w.policy, Records: &w.Records}, r)
		if err != nil {
			return nil, err
		}
		later := i > 0 && c.later() != nil && !c.Talks
		if later && !asksOrder(&out.Decision) {
			break // The customer is never asked, and so never says it.
		}
		if later || (c.hides() || w.talk.misleads()) && needsOrder(&d, w.Orders[0].ID) {
			d.Reads = slices.Insert(d.Reads, 0, desk.Read{Tool: desk.AskCustomer, Key: orderValue})
		}
		out.Requests, out.Decisions = append(out.Requests, r), append(out.Decisions, d)
		out.Decision = joinDecisions(out.Decision, d)
	}
	for _, m := range c.modifiers {
		for _, f := range m.Faults {
			out.Faults = append(out.Faults, desk.Fault{Action: f.Tool, Call: 1, Error: f.Error})
		}
	}
	return out, nil
}

// build draws the records.
func (w *world) build() {
	w.policy = desk.DrawPolicy(func(name string, n uint64) uint64 { return w.key.Stream("policy." + name).Below(n) })
	w.now = w.drawNow()
	w.drawCustomer()
	w.drawOrder()
	w.drawPayments()
	w.drawPast()
	w.drawSubscription()
	w.settleSince()
}

// drawRequests are the family's and, if a modifier adds one, a second one.
func (c *Composition) drawRequests(w *world) []desk.Request {
	out := []desk.Request{c.drawRequest(w, &c.family.Request)}
	for _, m := range c.modifiers {
		out[0].Opened = out[0].Opened || m.Request.Opened
		out[0].Misused = out[0].Misused || m.Request.Misused
		if m.Request.Wish != "" {
			out[0].Wish = m.Request.Wish
		}
		if m.Request.Reason != "" {
			out[0].Reason = m.Request.Reason
		}
		if m.Also != nil {
			out = append(out, c.drawRequest(w, m.Also))
		}
	}
	return out
}

func (c *Composition) drawRequest(w *world, f *requestFile) desk.Request {
	r := desk.Request{Kind: f.Kind, OrderID: w.Orders[0].ID, SKU: w.item.SKU, Reason: f.Reason, Wish: f.Wish,
		Opened: f.Opened, Misused: f.Misused, Answers: map[string]string{}}
	switch f.Value {
	case "address":
		r.Value = w.address
	case "plan":
		if len(w.Subscriptions) > 0 {
			r.Value = w.Subscriptions[0].Others[0].Name
		}
	}
	for topic := range c.set.answers {
		r.Answers[topic] = topic
	}
	return r
}

// joinDecisions combines the decisions about two requests of one message.
func joinDecisions(a, b desk.Decision) desk.Decision {
	if a.Outcome == "" {
		return b
	}
	if a.Outcome != b.Outcome {
		a.Outcome += "+" + b.Outcome
	}
	a.Reads = appendNew(a.Reads, b.Reads)
	a.Effects = appendNew(a.Effects, b.Effects)
	a.Confirms = appendNew(a.Confirms, b.Confirms)
	a.Facts = appendNew(a.Facts, b.Facts)
	a.Rules = appendNew(a.Rules, b.Rules)
	a.Handed = cmp.Or(a.Handed, b.Handed)
	return a
}

func appendNew[T comparable](to, from []T) []T {
	for _, x := range from {
		if !slices.Contains(to, x) {
			to = append(to, x)
		}
	}
	return to
}

// writeTexts adds the texts.
func (c *Composition) writeTexts(out *Case, w *world) error {
	l := expr.Locales[c.Language]
	texts := newScope(w, l)
	if c.hides() {
		texts.Withheld = []string{orderValue}
	}
	voices := c.listVoices()
	if len(voices) == 0 {
		return fmt.Errorf("no voice of split %q has texts of the family and of every modifier", c.Split)
	}
	voice := voices[w.below("voice", len(voices))]
	out.Voice = voice
	if w.talk.misleads() {
		texts.Vals[orderValue] = types.String(w.talk.order)
	}
	out.Query = texts.say(c.family.says[c.Language][voice])
	for _, m := range c.modifiers {
		if t := m.says[c.Language][voice]; t != nil && !m.Later && !w.talk.isLate(m) {
			out.Query += " " + texts.say(t)
		}
	}
	if w.talk.misleads() {
		delete(texts.Vals, orderValue)
	}
	for _, topic := range c.listTopics() {
		out.Answers = append(out.Answers, c.writeQuestion(topic, voice, texts))
	}
	for _, topic := range out.ListAsked() {
		out.Questions = append(out.Questions, c.writeQuestion(topic, voice, texts))
	}
	if c.Tickets {
		out.Ticket = c.makeTicket(out, w, texts)
	}
	replies := c.set.replies[c.Language]
	if replies == nil {
		return fmt.Errorf("there are no replies in %q", c.Language)
	}
	out.Unasked, out.AskWords = replies.unasked, replies.askWords
	if err := replies.writeReply(out, w, l); err != nil {
		return err
	}
	if c.Talks {
		c.writeTalk(out, w, texts)
	}
	return cmp.Or(texts.Err, out.setTrue())
}

// ListAsked are the topics about which the customer has to be asked.
func (c *Case) ListAsked() (topics []string) {
	for _, r := range c.Decision.Reads {
		if r.Tool == desk.AskCustomer {
			topics = append(topics, r.Key)
		}
	}
	return topics
}

// setTrue lists what the reply may tell besides its facts.
func (c *Case) setTrue() error {
	for _, f := range desk.TrueFacts(desk.Desk{Now: c.Now, Policy: c.Policy, Records: &c.Records}, c.Requests,
		c.Decisions, &c.Decision) {
		what, err := f.What()
		if err != nil {
			return err
		}
		c.True = append(c.True, facts.Wanted{What: what, Values: []string{f.String()}})
	}
	return nil
}

// listTopics are the topics about which the policy may require a question: the order's id, if the
// customer leaves it out, and what the requests are about.
func (c *Composition) listTopics() []string {
	out := desk.ListAskedTopics(c.family.Request.Kind)
	if c.hides() {
		out = append(out, orderValue)
	}
	for _, m := range c.modifiers {
		if m.Also != nil {
			out = appendNew(out, desk.ListAskedTopics(m.Also.Kind))
		}
	}
	return out
}

// writeQuestion returns a topic with the customer's answer. A later request is part of the answer
// about the order.
func (c *Composition) writeQuestion(topic, voice string, texts *scope) Answer {
	answer := c.renderAnswer(topic, voice, texts)
	if m := c.later(); m != nil && topic == orderValue {
		answer += " " + texts.say(m.says[c.Language][voice])
	}
	return Answer{Topic: topic, About: c.findAnswer(topic).about[c.Language], Answer: answer}
}

// hides reports whether the customer leaves the order's id out.
func (c *Composition) hides() bool {
	return slices.ContainsFunc(c.modifiers, func(m *modifier) bool { return m.Hides })
}

// later returns the modifier whose request the customer adds to the answer, or nil.
func (c *Composition) later() *modifier {
	if i := slices.IndexFunc(c.modifiers, func(m *modifier) bool { return m.Later }); i >= 0 {
		return c.modifiers[i]
	}
	return nil
}

// asksOrder reports whether the customer has to be asked for the order's id.
func asksOrder(d *desk.Decision) bool {
	return slices.Contains(d.Reads, desk.Read{Tool: desk.AskCustomer, Key: orderValue})
}

// needsOrder reports whether the decision depends on the order of that id.
func needsOrder(d *desk.Decision, id string) bool {
	return slices.ContainsFunc(d.Reads, func(r desk.Read) bool { return r.Key == id })
}

// listVoices are the voices of the composition's split.
func (c *Composition) listVoices() []string {
	return slices.DeleteFunc(c.listSpoken(), func(voice string) bool {
		return (c.Split == trainSplit || c.trainVoices) != slices.Contains(c.set.train, voice)
	})
}

// listSpoken are the voices in which the family and each modifier with texts have one in the
// language.
func (c *Composition) listSpoken() []string {
	var out []string
	for voice := range c.family.says[c.Language] {
		if !slices.ContainsFunc(c.modifiers, func(m *modifier) bool {
			return len(m.says) > 0 && m.says[c.Language][voice] == nil
		}) {
			out = append(out, voice)
		}
	}
	slices.Sort(out)
	return out
}

// anyVoice is the voice of texts that fit every voice.
const anyVoice = "any"

func findWording(says map[string]map[string]*expr.Text, language, voice string) *expr.Text {
	if t := says[language][voice]; t != nil {
		return t
	}
	return says[language][anyVoice]
}

// renderAnswer returns the customer's answer about a topic.
func (c *Composition) renderAnswer(topic, voice string, texts *scope) string {
	return texts.say(findWording(c.findAnswer(topic).says, c.Language, voice))
}

func (c *Composition) findAnswer(topic string) *answer {
	for _, m := range c.modifiers {
		if a := m.answers[topic]; a != nil {
			return a
		}
	}
	return c.set.answers[topic]
}
