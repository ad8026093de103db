package ticket

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// patience is the number of simulated minutes after which a customer is annoyed by waiting for the
// first reply. It is the same for all, so that a mood doesn't reveal a ticket's priority.
const patience = 20

// maxAnswers bounds the number of different answers, one bit each in customer.told.
const maxAnswers = 64

// messageReader compares messages to a customer, and the facts stated beside them, with what the
// customer must be told.
type messageReader interface {
	TellTicket(t *scenarios.Ticket, messages string, stated []facts.Fact) grader.Told
}

// moods are ordered by rising anger; a customer's mood is an index.
var moods = [...]string{"calm", "uneasy", "annoyed", "angry"}

// customer plays a ticket's script. Its messages and moods depend on gold in one case: it is silent
// after the agent has stated the outcome. That reveals that the reply was right, so it happens only
// with dense rewards.
type customer struct {
	script *scenarios.UserSim
	mood   int
	// turns counts the messages sent, and said how many of them were lines of a mood.
	turns, said int
	// told are the answers given, one bit each.
	told uint64
	// answered is set after the agent has stated a fact, and silent when the customer has nothing
	// to add.
	answered, silent bool
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

// moodName returns the mood's name, "" for a customer without a script.
func (c *customer) moodName() string {
	if c.script == nil {
		return ""
	}
	return moods[c.mood]
}

// answerMessage returns the customer's message after the agent's last one, or "". late means that
// the customer waited too long for it; content permits silence. Without the whole ticket the
// agent's message can't be compared: the error is an *episode.JudgeError.
func (c *customer) answerMessage(r messageReader, t *ticketState, late, content bool) (string, error) {
	if c.script == nil {
		return "", nil
	}
	whole, err := t.ticket.Complete()
	if err != nil {
		return "", &episode.JudgeError{Cause: string(grader.CauseFailed), Err: err}
	}
	asked := c.findAsked(t.replies[len(t.replies)-1])
	c.changeMood(len(t.stated) > 0, c.repeatsQuestion(asked), late)
	if c.silent || c.turns >= c.script.MaxTurns {
		return "", nil
	}
	c.turns++
	if len(asked) > 0 {
		return c.tellAnswers(asked), nil
	}
	lines := c.script.Lines[c.moodName()]
	if content {
		if told := r.TellTicket(whole, t.joinReplies(), t.stated); told.Facts.IsRight() {
			c.silent = true
			return lines[len(lines)-1], nil
		}
	}
	c.said++
	return lines[min(c.said, len(lines))-1], nil
}

// askWords are the beginnings of words that make a sentence without a question mark a question.
var askWords = []string{"please", "tell me", "tell us", "let me know", "let us know", "send", "give me", "give us",
	"confirm", "bitte", "nennen sie", "schicken sie", "por favor", "indique", "envíe", "díganos", "veuillez",
	"merci de", "indiquez", "envoyez"}

// findAsked lists the answers that the message asks for.
func (c *customer) findAsked(message string) (asked []int) {
	for i := range c.script.Answers {
		if i < maxAnswers && episode.HasQuestionAbout(message, c.script.Answers[i].Ask, askWords) {
			asked = append(asked, i)
		}
	}
	return asked
}

// repeatsQuestion reports whether the agent asked a question that the customer has already
// answered.
func (c *customer) repeatsQuestion(asked []int) bool {
	return slices.ContainsFunc(asked, func(i int) bool { return c.script.Answers[i].Told || c.told&(1<<i) != 0 })
}

// tellAnswers answers all questions, in the script's order.
func (c *customer) tellAnswers(asked []int) string {
	texts := make([]string, len(asked))
	for k, i := range asked {
		texts[k] = c.script.Answers[i].Text
		c.told |= 1 << i
	}
	return strings.Join(texts, " ")
}

// changeMood changes the mood by needless questions, by time, and by whether the agent has stated a
// fact, not by whether it is right.
func (c *customer) changeMood(stated, again, late bool) {
	for _, annoying := range []bool{again, late} {
		if annoying {
			c.mood++
		}
	}
	if stated && !c.answered {
		c.answered = true
		c.mood--
	}
	c.mood = min(max(c.mood, 0), len(moods)-1)
}
