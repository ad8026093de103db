package ticket

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// patience is the number of simulated minutes after which a customer is annoyed by waiting for the
// first reply. It is the same for all, so that a mood doesn't reveal a ticket's priority.
const patience = 20

// maxAnswers bounds the number of different answers, one bit each in customer.told.
const maxAnswers = 64

// messageReader interprets the agent's messages for a scripted customer.
type messageReader interface {
	Interpret(t *scenarios.Ticket, message string) grader.Interpretation
	Settled(t *scenarios.Ticket, messages string) grader.Settled
}

// moods are ordered by rising anger; a customer's mood is an index.
var moods = [...]string{"calm", "uneasy", "annoyed", "angry"}

// customer plays a ticket's script. Its messages and moods depend on gold in one case: it is silent
// after the agent has stated the outcome. That reveals that the reply was right, so it happens only
// with dense rewards.
type customer struct {
	script *scenarios.UserSim
	mood   int
	// turns counts the messages sent, said those of them that were lines of a mood.
	turns, said int
	// told are the answers given, one bit each.
	told uint64
	// soothed is set after the agent has acknowledged the situation, answered after it has said
	// something about every question, and silent when the customer has nothing to add.
	soothed, answered, silent bool
}

func newCustomer(t *scenarios.DrawnTicket) customer {
	c := customer{script: t.UserSim}
	switch t.Tone {
	case "worried":
		c.mood = 1
	case "angry":
		c.mood = len(moods) - 1
	}
	return c
}

// feels returns the mood's name, "" for a customer without a script.
func (c *customer) feels() string {
	if c.script == nil {
		return ""
	}
	return moods[c.mood]
}

// answer returns the customer's message after the agent's last one, or "". late means that the
// customer waited too long for it; content permits silence. Without the whole ticket the agent's
// message can't be read: the error is an *episode.JudgeError.
func (c *customer) answer(r messageReader, t *ticketState, late, content bool) (string, error) {
	if c.script == nil {
		return "", nil
	}
	whole, err := t.ticket.Complete()
	if err != nil {
		return "", &episode.JudgeError{Cause: string(grader.CauseFailed), Err: err}
	}
	message := r.Interpret(whole, t.replies[len(t.replies)-1])
	asked := slices.DeleteFunc(message.Asked, func(i int) bool { return i >= maxAnswers })
	c.feel(message, c.again(asked), late)
	if c.silent || c.turns >= c.script.MaxTurns {
		return "", nil
	}
	c.turns++
	if len(asked) > 0 {
		return c.tell(asked), nil
	}
	lines := c.script.Lines[c.feels()]
	if content && c.settled(r.Settled(whole, t.written())) {
		c.silent = true
		return lines[len(lines)-1], nil
	}
	c.said++
	return lines[min(c.said, len(lines))-1], nil
}

// again reports whether the agent asked a question that the customer has already answered.
func (c *customer) again(asked []int) bool {
	return slices.ContainsFunc(asked, func(i int) bool { return c.script.Answers[i].Told || c.told&(1<<i) != 0 })
}

// tell answers all questions, in the script's order.
func (c *customer) tell(asked []int) string {
	texts := make([]string, len(asked))
	for k, i := range asked {
		texts[k] = c.script.Answers[i].Text
		c.told |= 1 << i
	}
	return strings.Join(texts, " ")
}

// feel changes the mood by the tone of a message, by what it is about and by time, not by whether
// the message is right.
func (c *customer) feel(message grader.Interpretation, again, late bool) {
	for _, annoying := range []bool{message.Blames, message.Evades, again, late} {
		if annoying {
			c.mood++
		}
	}
	if message.Acknowledges && !c.soothed {
		c.soothed = true
		c.mood--
	}
	if message.Covers && !c.answered {
		c.answered = true
		c.mood--
	}
	c.mood = min(max(c.mood, 0), len(moods)-1)
}

func (c *customer) settled(s grader.Settled) bool {
	return s.Outcome && slices.Contains(c.script.StopWhen, "outcome_stated") ||
		s.Facts && slices.Contains(c.script.StopWhen, "facts_stated")
}
