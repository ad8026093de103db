package workflow

import "github.com/csenv/csenv/envserver/env/episode"

// AppendJSON implements episode.Appender. It writes the members of the struct, in the same order.
func (o Observation) AppendJSON(b []byte) ([]byte, error) {
	b = episode.AppendTextField(append(b, '{'), "task", o.Task)
	b, err := episode.AppendTimeField(b, "now", o.Now)
	if err != nil {
		return nil, err
	}
	b = episode.AppendTextField(b, "customer_name", o.CustomerName)
	b = episode.AppendTextField(b, "account_level", o.AccountLevel)
	b = episode.AppendTextField(b, "language", o.Language)
	b = episode.AppendTextField(b, "user_query", o.UserQuery)
	b = appendStatus(episode.AppendField(b, "order_status"), o.OrderStatus)
	b = appendStatus(episode.AppendField(b, "payment_status"), o.PaymentStatus)
	b = episode.AppendListField(b, "history", o.History, appendEntry)
	b = appendDocument(episode.AppendField(b, "last_result"), o.LastResult)
	b = episode.AppendIntField(b, "step", o.Step)
	b = episode.AppendIntField(b, "max_steps", o.MaxSteps)
	b = episode.AppendIntField(b, "minutes_used", o.MinutesUsed)
	return append(b, '}'), nil
}

func appendStatus(b []byte, status *string) []byte {
	if status == nil {
		return append(b, "null"...)
	}
	return episode.AppendText(b, *status)
}

func appendDocument(b []byte, d document) []byte {
	if d == "" {
		return append(b, "null"...)
	}
	return append(b, d...)
}

func appendEntry(b []byte, e Entry) []byte {
	b = episode.AppendIntField(append(b, '{'), "step", e.Step)
	b = episode.AppendTextField(b, "action_type", e.ActionType)
	b = appendDocument(episode.AppendField(b, "payload"), e.Payload)
	return append(appendDocument(episode.AppendField(b, "result"), e.Result), '}')
}
