package workflow

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// Customer reads what an agent writes to the customer of a conversation, and words the answer. What
// the customer does is the scenario's. It is safe for concurrent use, is called outside of locks,
// and may be slow. An error means that the context ended: the step isn't taken.
type Customer interface {
	// Name names the kind and the model, as in Kind.GraderVersion.
	Name() string
	// Hear sets what a message does, and adds its counts.
	Hear(ctx context.Context, m *Message, to *episode.Exchange) error
	// Word sets the words of a turn, and adds its counts.
	Word(ctx context.Context, turn *talk.Turn, to *episode.Exchange) error
}

// Message is a message to the customer.
type Message struct {
	Text string
	// Stated is what the agent states beside it.
	Stated talk.Heard
	// Said are the messages before it of both sides, oldest first.
	Said     []string
	Language string
	Now      time.Time
}

// SetCustomer makes another customer read and word than the embedded one, which reads what is
// stated alone, and says the words of the scenario. It is called before the first episode.
func (k *Kind) SetCustomer(c Customer) { k.customer = c }

// Exchanges implements episode.Conversing.
func (e *environment) Exchanges() []episode.Exchange {
	if e.state == nil {
		return nil
	}
	return e.state.exchanges
}

// Recall implements episode.Conversing.
func (e *environment) Recall(exchanges []episode.Exchange) { e.recalled = exchanges }

// conversesWith reports whether a customer that isn't the embedded one hears the next message.
func (e *environment) conversesWith(s *state) bool {
	return e.kind.customer != nil || len(s.exchanges) < len(e.recalled)
}

// converse plays a message to a customer that isn't the embedded one, or to one whose answer to it
// is recalled.
func (e *environment) converse(ctx context.Context, s *state, a episode.Action) error {
	args := desk.Args(normalizePayload(a))
	message := Message{Text: args.Text("message"), Stated: readHeard(args), Said: s.listSaid(),
		Language: s.workflow.Language, Now: s.workflow.Now}
	var x episode.Exchange
	recalled := len(s.exchanges) < len(e.recalled)
	if recalled {
		x = e.recalled[len(s.exchanges)]
	} else if err := e.kind.customer.Hear(ctx, &message, &x); err != nil {
		return fmt.Errorf("reading the message to the customer: %w", err)
	}
	s.heard = &x.Heard
	err := s.playAction(a)
	if s.heard = nil; err != nil || s.turn == nil {
		return err
	}
	if !recalled {
		s.turn.Said, s.turn.Hidden = append(message.Said, message.Text), s.talk.Hidden()
		if err := e.kind.customer.Word(ctx, s.turn, &x); err != nil {
			return fmt.Errorf("wording the customer's answer: %w", err)
		}
		x.Counts.Answers = 1
	}
	s.exchanges = append(s.exchanges, x)
	return s.setWords(x.Words)
}

// setWords makes the customer's last answer other words.
func (s *state) setWords(words string) (err error) {
	s.answer.Answer = words
	if s.last, err = encodeDocument(s.answer); err == nil {
		s.history[len(s.history)-1].Result, s.said[len(s.said)-1] = s.last, words
	}
	return err
}

// listSaid are the messages so far.
func (s *state) listSaid() []string { return append([]string{s.workflow.Query}, s.said...) }

// isToCustomer reports whether an action is a message that the customer answers.
func (s *state) isToCustomer(a episode.Action) bool {
	return a.Type == desk.Tell && s.workflow.Talk != nil
}

// readHeard is what is stated beside a message.
func readHeard(args desk.Args) talk.Heard {
	list := func(name string) []string {
		values, _ := args[name].([]string)
		return values
	}
	h := talk.Heard{Facts: getFacts(args), Asks: list("asks"), Offers: list("offers")}
	for _, tool := range list("confirms") {
		h.Confirms = append(h.Confirms, desk.NewEffect(tool, args).Call())
	}
	return h
}

// tell sends a message to the customer of a conversation, who answers at once.
func (s *state) tell(args desk.Args) result {
	message := args.Text("message")
	switch {
	case s.workflow.Talk == nil:
		return s.refuseTool(desk.Tell)
	case message == "":
		s.addFine(desk.Tell, wrongPenalty, "message is missing")
		return newFailure("message is missing")
	}
	answer := result{OK: true, Sent: message}
	heard := readHeard(args)
	if s.heard != nil {
		if !reflect.DeepEqual(heard, *s.heard) {
			answer.Heard = s.heard
		}
		heard = *s.heard
	}
	s.stated = facts.Join(s.stated, getFacts(args))
	first := s.talk.Turns() == 0
	said := s.talk.Hear(heard, s.step-s.toldAt-1)
	s.toldAt = s.step
	s.fineNeedless(heard, &said, first)
	for i, step := range s.workflow.Steps {
		if step.Action == desk.Tell && s.isAnswered(step.Asks, step.Confirms) {
			s.satisfyStep(i)
		}
	}
	t := s.workflow.Talk
	s.turn = &talk.Turn{Language: t.Language, Voice: t.Voice, Mood: said.Mood, Acts: said.Acts, Now: s.workflow.Now}
	answer.Answer = said.Template()
	s.said = append(s.said, message, answer.Answer)
	return answer
}

func (s *state) isAnswered(asks []string, confirms *desk.Effect) bool {
	if confirms != nil {
		return s.talk.HasAnswered(*confirms)
	}
	return !slices.ContainsFunc(asks, func(topic string) bool { return !s.talk.HasTold(topic) })
}

// fineNeedless notes each question that need not be asked, or a message that does nothing. The
// first one of a conversation is never needless.
func (s *state) fineNeedless(h talk.Heard, said *talk.Answer, first bool) {
	needless, useful := 0, first || said.Confirms && slices.ContainsFunc(h.Confirms, s.asksAbout)
	for _, topic := range h.Asks {
		switch {
		case topic == talk.AboutRest:
		case slices.Contains(said.News, topic) && s.needs(topic):
			useful = true
		default:
			needless++
		}
	}
	if !useful {
		needless = max(needless, 1)
	}
	for range needless {
		s.addExcess(desk.Tell, "a needless question or message")
	}
}

// needs reports whether the customer has to be asked about a topic.
func (s *state) needs(topic string) bool {
	for _, step := range s.workflow.Steps {
		if slices.Contains(step.Asks, topic) {
			return true
		}
	}
	return false
}

// asksAbout reports whether the customer has to be asked about a change.
func (s *state) asksAbout(e desk.Effect) bool {
	for _, step := range s.workflow.Steps {
		if step.Confirms != nil && step.Confirms.IsWithin(e) {
			return true
		}
	}
	return false
}

// isUnconfirmed reports whether the customer has to agree to a change and hasn't.
func (s *state) isUnconfirmed(action string, args desk.Args) bool {
	if s.workflow.Talk == nil || !desk.IsChange(action) {
		return false
	}
	e := desk.NewEffect(action, args).Call()
	return s.asksAbout(e) && !s.talk.HasConfirmed(e)
}

// joinMessages are the messages of the agent, which tell the customer what they tell together.
func (s *state) joinMessages(last string) string {
	var all []string
	for i := 0; i < len(s.said); i += 2 {
		all = append(all, s.said[i])
	}
	return strings.Join(append(all, last), "\n\n")
}
