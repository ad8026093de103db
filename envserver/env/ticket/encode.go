package ticket

import (
	"strconv"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios/facts"
)

// AppendJSON implements episode.Appender. It writes the members of the struct, in the same order.
func (o Observation) AppendJSON(b []byte) ([]byte, error) {
	b = episode.AppendTextField(append(b, '{'), "task", o.Task)
	b = episode.AppendTextField(b, "ticket_id", o.TicketID)
	b, err := episode.AppendTimeField(b, "now", o.Now)
	if err != nil {
		return nil, err
	}
	b = episode.AppendTextField(b, "customer_name", o.CustomerName)
	b = episode.AppendTextField(b, "company", o.Company)
	b = episode.AppendTextField(b, "customer_since", o.CustomerSince)
	b = episode.AppendTextField(b, "account_level", o.AccountLevel)
	b = episode.AppendTextField(b, "language", o.Language)
	b = episode.AppendTextField(b, "subject", o.Subject)
	b = episode.AppendTextField(b, "description", o.Description)
	b = episode.AppendListField(b, "attachments", o.Attachments, appendAttachment)
	b = episode.AppendListField(b, "conversation_history", o.ConversationHistory, appendMessage)
	b = episode.AppendTextField(b, "status", o.Status)
	if b = episode.AppendField(b, "score"); o.Score == nil {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendFloat(b, *o.Score, 'f', -1, 64) // thousandths need no exponent
	}
	b = episode.AppendIntField(b, "step", o.Step)
	b = episode.AppendIntField(b, "max_steps", o.MaxSteps)
	b = episode.AppendListField(b, "allowed_actions", o.AllowedActions, episode.AppendText)
	b = episode.AppendTextField(b, "feedback", o.Feedback)
	b = episode.AppendListField(b, "knowledge_base", o.KnowledgeBase, appendArticle)
	if o.CustomerMood != "" {
		b = episode.AppendTextField(b, "customer_mood", o.CustomerMood)
	}
	if o.ClockMinutes != nil {
		b = episode.AppendIntField(b, "clock_minutes", *o.ClockMinutes)
	}
	if o.QueueStatus != nil {
		b = episode.AppendListField(b, "queue", o.Queue, appendQueued)
		b = episode.AppendIntField(b, "minutes_left", o.MinutesLeft)
		b = episode.AppendIntField(b, "escalations_left", o.EscalationsLeft)
	}
	return append(b, '}'), nil
}

func appendAttachment(b []byte, a Attachment) []byte {
	b = episode.AppendTextField(append(b, '{'), "name", a.Name)
	return append(episode.AppendTextField(b, "content", a.Content), '}')
}

func appendMessage(b []byte, m Message) []byte {
	b = episode.AppendTextField(append(b, '{'), "role", m.Role)
	b = episode.AppendTextField(b, "content", m.Content)
	if len(m.Facts) > 0 {
		b = episode.AppendListField(b, "facts", m.Facts, appendFact)
	}
	return append(b, '}')
}

func appendFact(b []byte, f facts.Fact) []byte {
	b = episode.AppendTextField(append(b, '{'), "what", f.What)
	return append(episode.AppendTextField(b, "value", f.Value), '}')
}

func appendArticle(b []byte, a Article) []byte {
	if a.Encoded != "" {
		return append(b, a.Encoded...)
	}
	b = episode.AppendTextField(append(b, '{'), "id", a.ID)
	b = episode.AppendTextField(b, "title", a.Title)
	return append(episode.AppendTextField(b, "body", a.Body), '}')
}

func appendQueued(b []byte, q QueuedTicket) []byte {
	b = episode.AppendTextField(append(b, '{'), "ticket_id", q.TicketID)
	b = episode.AppendTextField(b, "subject", q.Subject)
	b = episode.AppendTextField(b, "account_level", q.AccountLevel)
	b = episode.AppendTextField(b, "status", q.Status)
	b = episode.AppendIntField(b, "waiting_minutes", q.WaitingMinutes)
	if b = episode.AppendField(b, "minutes_to_sla"); q.MinutesToSLA == nil {
		return append(b, "null}"...)
	}
	return append(strconv.AppendInt(b, int64(*q.MinutesToSLA), 10), '}')
}
