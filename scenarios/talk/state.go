package talk

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// Script is what a customer wants, knows and says in a conversation. It is immutable.
type Script struct {
	// Language and Voice are those of the words, and Mood is the one at the beginning, by its place
	// in Moods.
	Language, Voice string
	Mood            int
	// Topics are those about which the customer can tell something.
	Topics []Topic
	// First is what the customer adds to their first answer, whatever they are asked: what they
	// left out, another request, another wish.
	First []Act
	// Serves are the tools whose changes the customer wants or would agree to for their requests,
	// and Accepts those that they take if they are offered.
	Serves, Accepts []string
	// Orders are the ids of the orders and subscriptions of the requests. FirstAddress is the one
	// that the customer asks for, and Address the one that they want in the end.
	Orders                []string
	FirstAddress, Address string
	// Rethinks, if it isn't nil, is said at the first question whether a change of the tool that is
	// its topic should be made, and denies it.
	Rethinks *Act
	// Insists is how often the customer repeats what was refused, and Patience the number of other
	// actions between two messages that they bear.
	Insists, Patience int
	// Lines are the words of acts without values of their own, by the names of LineNames. %s stands
	// for the change or the answer that a line is about.
	Lines map[string]string
	// Context reads the facts that an agent states.
	Context *facts.Context `json:"-"`
}

// Topic is what the customer knows about a topic.
type Topic struct {
	Name string
	// Tell is the truth. Mistake, if it isn't nil, is what they say first, and Correction replaces
	// it.
	Tell                Act
	Mistake, Correction *Act
	// Evades means that the customer puts the first question off.
	Evades bool
	// Said means that the first message tells it, the mistake if there is one.
	Said bool
}

// known is how much an agent knows of a topic.
type known uint8

const (
	unknown known = iota
	evaded
	misled
	told
)

// maxTopics bounds the topics of a script.
const maxTopics = 8

// State is a customer in the middle of a conversation. A copy can be played on by itself.
type State struct {
	script *Script
	// topics are in the order of the script's.
	topics                [maxTopics]known
	turns, mood, insisted int
	rethought             bool
	confirmed             []desk.Effect
}

// Begin returns the state after the customer's first message.
func (s *Script) Begin() State {
	out := State{script: s, mood: s.Mood}
	for i, t := range s.Topics {
		if t.Said {
			out.topics[i] = t.first()
		}
	}
	return out
}

// Rounds are the questions with which the customer tells about topics in as few messages as
// possible, message by message. The first message, which they answer with what they add, may ask
// for nothing else.
func (s *Script) Rounds(topics []string) [][]string {
	rounds := [][]string{{}}
	for _, topic := range topics {
		state := s.Begin()
		for round := 0; !state.HasTold(topic); round++ {
			if round == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[round] = append(rounds[round], topic)
			state.Hear(Heard{Asks: []string{topic}}, 0)
		}
	}
	if len(rounds[0]) == 0 {
		rounds[0] = []string{AboutRest}
	}
	return rounds
}

// Confirmations are the questions after which the customer has agreed to a change: the change
// itself, before it the one that they asked for at first, if they think again.
func (s *Script) Confirmations(e desk.Effect) []desk.Effect {
	if s.Rethinks == nil || s.Rethinks.Topic != e.Tool {
		return []desk.Effect{e}
	}
	before := e
	before.Address = s.FirstAddress
	return []desk.Effect{before, e}
}

// first is what is known of a topic when it was told once.
func (t *Topic) first() known {
	if t.Mistake != nil {
		return misled
	}
	return told
}

// HasTold reports whether the customer has told what they know about a topic, and nothing wrong.
// AboutRest is told with the first answer.
func (s *State) HasTold(topic string) bool {
	if topic == AboutRest {
		return s.turns > 0
	}
	i := s.script.find(topic)
	return i < 0 || s.topics[i] == told
}

func (s *Script) find(topic string) int {
	return slices.IndexFunc(s.Topics, func(t Topic) bool { return t.Name == topic })
}

// HasConfirmed reports whether the customer has agreed to a change with exactly these arguments.
func (s *State) HasConfirmed(e desk.Effect) bool {
	e.Reason = ""
	return slices.Contains(s.confirmed, e)
}

// HasAnswered reports whether the customer has agreed to a change, or thought again when they were
// asked about it.
func (s *State) HasAnswered(e desk.Effect) bool {
	r := s.script.Rethinks
	return slices.ContainsFunc(s.confirmed, e.IsWithin) ||
		s.rethought && r.Topic == e.Tool && e.Address == s.script.FirstAddress
}

// Misleads reports whether the customer gives the id instead of the order's. There may be no
// customer.
func (s *Script) Misleads(id string) bool {
	if s == nil || id == "" {
		return false
	}
	i := s.find(AboutOrder)
	return i >= 0 && s.Topics[i].Mistake != nil && s.Topics[i].Mistake.Values[0].Values[0] == id
}

// Turns is the number of answers so far.
func (s *State) Turns() int { return s.turns }

// Hidden are the values that the customer must not state yet.
func (s *State) Hidden() (values []facts.Wanted) {
	for i, t := range s.script.Topics {
		if s.topics[i] != told {
			values = append(values, t.Tell.Values...)
		}
	}
	if s.turns == 0 {
		for _, act := range s.script.First {
			values = append(values, act.Values...)
		}
	}
	if s.script.Rethinks != nil && !s.rethought {
		values = append(values, s.script.Rethinks.Values...)
	}
	return values
}

// Answer is what the customer answers to a message.
type Answer struct {
	Acts []Act
	Mood string
	// News are the topics about which it tells more than was known, and Confirms whether a change
	// was confirmed or another wish stated.
	News     []string
	Confirms bool
}

// answering builds an answer.
type answering struct {
	*State
	Answer
	needless, insisting bool
}

// Hear returns the customer's answer to a message after which the agent took waited other actions
// since the last one. Nothing of it depends on what is right.
func (s *State) Hear(h Heard, waited int) Answer {
	a := answering{State: s}
	for i, topic := range h.Asks {
		if !slices.Contains(h.Asks[:i], topic) {
			a.answer(topic)
		}
	}
	a.correct(h.Facts)
	for _, e := range h.Confirms {
		a.confirm(e)
	}
	for i, tool := range h.Offers {
		if !slices.Contains(h.Offers[:i], tool) {
			a.weigh(tool)
		}
	}
	if slices.ContainsFunc(h.Facts, isRefusal) {
		a.insist()
	}
	if s.turns == 0 {
		a.Acts = append(a.Acts, s.script.First...)
		for _, act := range s.script.First {
			if i := s.script.find(act.Topic); act.Kind == Tell && i >= 0 {
				s.topics[i] = max(s.topics[i], s.script.Topics[i].first())
				a.News = append(a.News, act.Topic)
			}
		}
	}
	switch {
	case len(a.Acts) > 0:
	case len(h.Facts) > 0:
		a.say(Remind, "", "noted")
	default:
		a.say(Remind, "", "remind")
	}
	s.turns++
	a.feel(len(h.Facts) > 0, waited > s.script.Patience)
	return a.Answer
}

// isRefusal reports whether a fact says that a request is refused.
func isRefusal(f facts.Fact) bool {
	return f.What == "next_step" && strings.EqualFold(strings.TrimSpace(f.Value), "refused")
}

// say adds an act with the words of a line about something.
func (a *answering) say(kind Kind, topic, line string, about ...string) {
	words := a.script.Lines[line]
	if len(about) > 0 {
		words = strings.Replace(words, "%s", about[0], 1)
	}
	a.Acts = append(a.Acts, Act{Kind: kind, Topic: topic, Words: words})
}

// answer answers a question about a topic.
func (a *answering) answer(topic string) {
	i := a.script.find(topic)
	switch {
	case topic == AboutRest:
		if a.turns > 0 || len(a.script.First) == 0 {
			a.say(Close, "", "close")
		}
		return
	case i < 0:
		a.needless = true
		a.say(Exhausted, topic, "exhausted")
		return
	case a.turns == 0 && slices.ContainsFunc(a.script.First, func(act Act) bool {
		return act.Kind == Tell && act.Topic == topic
	}):
		return // It follows.
	}
	t := &a.script.Topics[i]
	switch at := a.topics[i]; {
	case at == told:
		a.needless = true
		a.say(Tell, topic, "repeat", t.Tell.Words)
		a.Acts[len(a.Acts)-1].Values = t.Tell.Values
		return
	case at == misled:
		a.topics[i] = told
		a.Acts = append(a.Acts, *t.Correction)
	case at == unknown && t.Evades:
		a.topics[i] = evaded
		a.say(Evade, topic, "evade")
	case t.Mistake != nil:
		a.topics[i] = misled
		a.Acts = append(a.Acts, *t.Mistake)
	default:
		a.topics[i] = told
		a.Acts = append(a.Acts, t.Tell)
	}
	a.News = append(a.News, topic)
}

// correct takes back what the customer told wrongly if the agent states what is true.
func (a *answering) correct(stated []facts.Fact) {
	for i := range a.script.Topics {
		t := &a.script.Topics[i]
		if a.topics[i] != misled || len(t.Tell.Values) == 0 {
			continue
		}
		truth := t.Tell.Values[0]
		if slices.ContainsFunc(stated, func(f facts.Fact) bool {
			return f.What == truth.What && a.script.Context.Agree(f.What, f.Value, truth.Values[0])
		}) {
			a.topics[i] = told
			a.Acts, a.News = append(a.Acts, *t.Correction), append(a.News, t.Name)
		}
	}
}

// confirm answers whether a change should be made.
func (a *answering) confirm(e desk.Effect) {
	e.Reason = ""
	change := a.script.Lines["change."+e.Tool]
	switch r := a.script.Rethinks; {
	case a.turns == 0 && slices.ContainsFunc(a.script.First, func(act Act) bool { return act.Kind == Rethink }):
		return // They think again instead.
	case r != nil && !a.rethought && r.Topic == e.Tool:
		a.rethought, a.Confirms = true, true
		a.say(Deny, e.Tool, "deny", change)
		a.Acts = append(a.Acts, *r)
	case !a.script.agrees(e):
		a.say(Deny, e.Tool, "deny", change)
	default:
		a.say(Confirm, e.Tool, "confirm", change)
		if !slices.Contains(a.confirmed, e) {
			a.Confirms = true
			a.confirmed = append(slices.Clip(a.confirmed), e)
		}
	}
}

// agrees reports whether a change serves a request, as far as the customer knows.
func (s *Script) agrees(e desk.Effect) bool {
	return slices.Contains(s.Serves, e.Tool) && (e.OrderID == "" || slices.Contains(s.Orders, e.OrderID)) &&
		(e.Address == "" || e.Address == s.Address)
}

// weigh answers an offer.
func (a *answering) weigh(tool string) {
	change := a.script.Lines["change."+tool]
	if slices.Contains(a.script.Accepts, tool) {
		a.say(Accept, tool, "accept", change)
		return
	}
	a.say(Decline, tool, "decline", change)
}

// insist answers a refusal.
func (a *answering) insist() {
	if a.insisted == a.script.Insists {
		a.say(Accept, "", "resign")
		return
	}
	a.insisted++
	a.insisting = true
	a.say(Insist, "", insistLines[a.insisted-1])
}

// feel moves the mood.
func (a *answering) feel(answered, waited bool) {
	before := a.mood
	for _, worse := range []bool{a.needless, waited, a.insisting} {
		if worse {
			a.mood = min(a.mood+1, len(Moods)-1)
		}
	}
	if a.mood == before && answered {
		a.mood = max(a.mood-1, 0)
	}
	if a.Mood = Moods[a.mood]; a.mood > before {
		a.Acts = slices.Insert(a.Acts, 0, Act{Kind: Complain, Words: a.script.Lines[a.Mood]})
	}
}

// Template returns the words of the acts in their order.
func (a *Answer) Template() string { return template(a.Acts) }

func template(acts []Act) string {
	words := make([]string, len(acts))
	for i, act := range acts {
		words[i] = act.Words
	}
	return strings.Join(words, " ")
}

// insistLines are the lines of the refusals in a row.
var insistLines = []string{"insist1", "insist2", "insist3"}

// MaxInsists is the number of times that a customer can insist.
const MaxInsists = 3

// LineNames are the lines that every language has, and whether %s stands in a line once.
func LineNames() map[string]bool {
	lines := map[string]bool{"evade": false, "repeat": true, "remind": false, "noted": false, "close": false,
		"resign": false, "confirm": true, "deny": true, "accept": true, "decline": true,
		"uneasy": false, "annoyed": false, "angry": false}
	for _, name := range insistLines {
		lines[name] = false
	}
	for _, tool := range desk.ListChanges() {
		lines["change."+tool] = false
	}
	return lines
}
