package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/endpoint"
)

const (
	// maxConversation bounds, in bytes, the messages other than instructions and tools. Above it
	// old turns are shortened.
	maxConversation = 96 << 10
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
	// complete means that old turns aren't shortened.
	complete bool
}

// exchange is an answer of the model and its result.
type exchange struct {
	// said is the text of the answer, and call the call in it or nil.
	said string
	call *toolCall
	// note is a comment on the form of the answer.
	note, result string
}

// toolCall is a call of an existing tool.
type toolCall struct {
	id, name, arguments string
}

// observe adds the result of the last answer, or the first observation.
func (c *conversation) observe(turn Turn) {
	if len(c.turns) == 0 {
		c.task, c.first, c.seen = turn.Task, turn.Observation, turn.Observation
		return
	}
	last := &c.turns[len(c.turns)-1]
	if turn.Refused != "" {
		last.result = "Refused, and nothing was done: " + clip(turn.Refused, maxShown)
	} else {
		last.result = "Observation: " + string(changes(c.seen, turn.Observation))
		c.seen = turn.Observation
	}
	if last.note != "" {
		last.result += "\n" + last.note
	}
	c.shorten()
}

// shorten removes the contents of old turns if the conversation is too long, down to half of the
// bound, because each change invalidates the endpoint's cache of the beginning. The latest
// observation is then sent in full, not as changes.
func (c *conversation) shorten() {
	if c.complete || c.size() <= maxConversation {
		return
	}
	for i := range c.turns[:len(c.turns)-1] {
		c.turns[i].shorten()
		if c.size() <= maxConversation/2 {
			break
		}
	}
	last := &c.turns[len(c.turns)-1]
	last.result = clip(last.result, maxShown) + "\nEarlier turns were shortened. The observation in full: " +
		string(c.seen)
}

func (e *exchange) shorten() {
	e.said, e.result = clip(e.said, 200), shortened
	if e.call != nil {
		e.call.arguments = "{}"
	}
}

func (c *conversation) size() int {
	n := len(c.first)
	for _, t := range c.turns {
		n += len(t.said) + len(t.result)
		if t.call != nil {
			n += len(t.call.arguments)
		}
	}
	return n
}

// messages encodes the conversation for the protocol.
func (c *conversation) messages(system string, mode Mode) []endpoint.ChatMessage {
	messages := []endpoint.ChatMessage{
		endpoint.Message(endpoint.RoleSystem, system),
		endpoint.Message(endpoint.RoleUser, fmt.Sprintf("Task: %s\nObservation: %s", c.task, c.first)),
	}
	for _, t := range c.turns {
		if t.call != nil && mode == ModeTools {
			result := endpoint.Message(endpoint.RoleTool, t.result)
			result.ToolCallID = t.call.id
			messages = append(messages, t.call.message(t.said), result)
			continue
		}
		said := t.said
		if t.call != nil {
			said = strings.TrimSpace(said + "\n" + t.call.name + " " + t.call.arguments)
		}
		if said == "" {
			said = "(nothing)" // endpoints refuse messages without content
		}
		messages = append(messages, endpoint.Message(endpoint.RoleAssistant, said),
			endpoint.Message(endpoint.RoleUser, t.result))
	}
	return messages
}

func (c *toolCall) message(said string) endpoint.ChatMessage {
	call := endpoint.ChatCall{ID: c.id, Type: "function"}
	call.Function.Name, call.Function.Arguments = c.name, c.arguments
	message := endpoint.ChatMessage{Role: endpoint.RoleAssistant, ToolCalls: []endpoint.ChatCall{call}}
	if said != "" {
		message.Content = &said
	}
	return message
}

// changes returns the fields of an observation that are new or different and, for a list that grew,
// the new entries.
func changes(before, after json.RawMessage) json.RawMessage {
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
			if added := appended(was, value); added != nil {
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

// appended returns the entries that were appended to a list, or nil for any other change.
func appended(before, after json.RawMessage) json.RawMessage {
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
