package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/endpoint"
)

const (
	// defaultConversation is the default bound, in bytes, of the messages other than instructions
	// and tools. Above it old turns are shortened. minConversation is the least bound.
	defaultConversation = 96 << 10
	minConversation     = 4 << 10
	// maxArguments bounds, in bytes, the arguments of a call that are sent again. It is more than
	// any valid action has.
	maxArguments = 16 << 10
	// shortened replaces the result of an old turn.
	shortened = "[shortened: see the latest observation]"
)

// conversation contains a model's input and its answers. Each request encodes it again as messages,
// in the mode that the endpoint supports.
type conversation struct {
	task  string
	first json.RawMessage
	turns []exchange
	// seen is the latest observation.
	seen json.RawMessage
	// longest bounds the size, 0 for no bound.
	longest int
}

// exchange is an answer of the model and its result.
type exchange struct {
	// said is the text of the answer, and call the call in it or nil.
	said string
	call *toolCall
	// note is a comment on the form of the answer.
	note, result string
	// received is the model's message as it came, without what can't be sent again; nil if nothing
	// can. Its content is the message's, unless said replaces it.
	received map[string]any
	// weight is the size of received.
	weight int
}

// toolCall is a call of an existing tool.
type toolCall struct {
	id, name, arguments string
}

// addObservation adds the result of the last answer, or the first observation.
func (c *conversation) addObservation(turn Turn) {
	if len(c.turns) == 0 {
		c.task, c.first, c.seen = turn.Task, turn.Observation, turn.Observation
		return
	}
	last := &c.turns[len(c.turns)-1]
	if turn.Refused != "" {
		last.result = "Refused, and nothing was done: " + clipText(turn.Refused, maxShown)
	} else {
		last.result = "Observation: " + string(diffObservations(c.seen, turn.Observation))
		c.seen = turn.Observation
	}
	if last.note != "" {
		last.result += "\n" + last.note
	}
	c.shortenTurns()
}

// shortenTurns removes the contents of old turns if the conversation is too long, down to half of
// the bound, because each change invalidates the endpoint's cache of the beginning. The latest
// observation is then sent in full, not as changes.
func (c *conversation) shortenTurns() {
	if c.longest > 0 && c.countBytes() > c.longest {
		c.shortenTo(c.longest / 2)
	}
}

func (c *conversation) shortenTo(most int) {
	last := &c.turns[len(c.turns)-1]
	for i := range c.turns[:len(c.turns)-1] {
		c.turns[i].shortenThoughts()
		if c.countBytes() <= most {
			break
		}
	}
	const told = "\nEarlier turns were shortened. The observation in full: "
	if before, _, again := strings.Cut(last.result, told); again {
		last.result = before
	}
	last.result = clipText(last.result, maxShown) + told + string(c.seen)
}

// maxShortened bounds, in bytes, each text of an old turn.
const maxShortened = 200

// shortenThoughts keeps the thoughts' beginnings and signatures, which some endpoints require.
func (e *exchange) shortenThoughts() {
	e.said, e.result = clipText(e.said, maxShortened), shortened
	if e.call != nil {
		e.call.arguments = "{}"
	}
	delete(e.received, "content")
	for name, value := range e.received {
		if text, ok := value.(string); ok {
			e.received[name] = clipText(text, maxShortened)
		}
	}
	data, _ := json.Marshal(e.received)
	e.weight = len(data)
}

func (c *conversation) countBytes() int {
	n := len(c.first)
	for _, t := range c.turns {
		n += len(t.said) + len(t.result) + t.weight
		if t.call != nil {
			n += len(t.call.arguments)
		}
	}
	return n
}

// encodeMessages encodes the conversation for the protocol.
func (c *conversation) encodeMessages(system string, mode Mode) []endpoint.ChatMessage {
	messages := []endpoint.ChatMessage{
		endpoint.NewMessage(endpoint.RoleSystem, system),
		endpoint.NewMessage(endpoint.RoleUser, fmt.Sprintf("Task: %s\nObservation: %s", c.task, c.first)),
	}
	for _, t := range c.turns {
		if t.call != nil && mode == ModeTools {
			result := endpoint.NewMessage(endpoint.RoleTool, t.result)
			result.ToolCallID = t.call.id
			messages = append(messages, t.encodeMessage(), result)
			continue
		}
		said, received := t.said, t.received
		if t.call != nil {
			said, received = strings.TrimSpace(said+"\n"+t.call.name+" "+t.call.arguments), nil
		}
		if said == "" {
			said = "(nothing)" // endpoints refuse messages without content
		}
		answer := endpoint.NewMessage(endpoint.RoleAssistant, said)
		answer.Received = received
		messages = append(messages, answer, endpoint.NewMessage(endpoint.RoleUser, t.result))
	}
	return messages
}

// encodeMessage is the model's, with its call.
func (e *exchange) encodeMessage() endpoint.ChatMessage {
	call := endpoint.ChatCall{ID: e.call.id, Type: "function",
		Function: endpoint.CallFunction{Name: e.call.name, Arguments: e.call.arguments}}
	message := endpoint.ChatMessage{Role: endpoint.RoleAssistant, ToolCalls: []endpoint.ChatCall{call},
		Received: e.received}
	if e.said != "" {
		message.Content = &e.said
	}
	return message
}

// diffObservations returns the fields of an observation that are new or different and, for a list
// that grew, the new entries.
func diffObservations(before, after json.RawMessage) json.RawMessage {
	var old, fresh map[string]json.RawMessage
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &fresh) != nil {
		return after
	}
	for name, value := range fresh {
		switch was, known := old[name]; {
		case !known:
		case bytes.Equal(was, value):
			delete(fresh, name)
		default:
			if added := findAppended(was, value); added != nil {
				fresh[name] = added
			}
		}
	}
	out, err := json.Marshal(fresh)
	if err != nil {
		return after
	}
	return out
}

// findAppended returns the entries that were appended to a list, or nil for any other change.
func findAppended(before, after json.RawMessage) json.RawMessage {
	var old, fresh []json.RawMessage
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &fresh) != nil || len(old) == 0 ||
		len(fresh) <= len(old) {
		return nil
	}
	for i := range old {
		if !bytes.Equal(old[i], fresh[i]) {
			return nil
		}
	}
	out, err := json.Marshal(map[string][]json.RawMessage{"added": fresh[len(old):]})
	if err != nil {
		return nil
	}
	return out
}
