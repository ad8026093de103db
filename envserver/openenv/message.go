package openenv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/csenv/csenv/envserver/episode"
	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The messages that a client may send on /ws.
type messageKind string

const (
	resetMessage messageKind = "reset"
	stepMessage  messageKind = "step"
	stateMessage messageKind = "state"
	closeMessage messageKind = "close"
	mcpMessage   messageKind = "mcp"
)

// messageKinds are all of them.
var messageKinds = []messageKind{resetMessage, stepMessage, stateMessage, closeMessage, mcpMessage}

// message is a decoded inbound message. Its data is a copy of its own, a JSON object for reset,
// step and mcp and nil for the others.
type message struct {
	kind messageKind
	data jsontext.Value
}

// envelope takes a message apart without looking at the data.
type envelope struct {
	Type  jsontext.Value            `json:"type"`
	Data  jsontext.Value            `json:"data"`
	Extra map[string]jsontext.Value `json:",embed"`
}

// decodeMessage reads a frame strictly: names are case-sensitive and not repeated, and nothing but
// type and data may be there. What is wrong comes back as the error to answer with.
func decodeMessage(raw []byte) (message, *wireError) {
	if data := stepData(raw); data != nil {
		return message{kind: stepMessage, data: data}, nil
	}
	var e envelope
	if err := json.Unmarshal(raw, &e); err != nil {
		return message{}, envelopeError(raw, err)
	}
	// null, unlike every other value that isn't an object, is decoded without an error.
	if e.Type == nil && e.Data == nil && e.Extra == nil && jsontext.Value(raw).Kind() == 'n' {
		return message{}, notAnObject()
	}
	m := message{kind: readKind(e.Type)}
	if m.kind == "" {
		return message{}, &wireError{Code: codeUnknownType,
			Message: fmt.Sprintf("unknown message type %s: send reset, step, state, mcp or close", shown(e.Type))}
	}
	if items := append(m.takeData(e.Data), extraItems(m.kind, e.Extra)...); len(items) > 0 {
		return message{}, validationError(items)
	}
	return m, nil
}

// stepData is the data of a step message that is written as nearly every client writes it, with or
// without spaces; nil for every other message, which is then taken apart in full. It halves the
// time that a step's envelope takes.
func stepData(raw []byte) jsontext.Value {
	for _, literal := range []string{"{", `"type"`, ":", `"step"`, ",", `"data"`, ":"} {
		raw = bytes.TrimLeft(raw, " ")
		if len(raw) < len(literal) || string(raw[:len(literal)]) != literal {
			return nil
		}
		raw = raw[len(literal):]
	}
	inner, ok := bytes.CutSuffix(raw, []byte("}"))
	// What is between must be one value: with anything beside data it isn't.
	if data := jsontext.Value(bytes.Trim(inner, " ")); ok && data.Kind() == '{' && data.IsValid() {
		return data.Clone()
	}
	return nil
}

// extraItems refuses what is beside type and data, ordered by name.
func extraItems(kind messageKind, extra map[string]jsontext.Value) []episode.ErrorItem {
	if len(extra) == 0 {
		return nil
	}
	items := make([]episode.ErrorItem, 0, len(extra))
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		items = append(items, errorItem("extra_forbidden", extra[name], fmt.Sprintf("a %s message has no %q", kind,
			name), name))
	}
	return items
}

// envelopeError tells text that is no JSON from JSON that is no object.
func envelopeError(raw []byte, err error) *wireError {
	if _, semantic := errors.AsType[*json.SemanticError](err); semantic && jsontext.Value(raw).IsValid() {
		return notAnObject()
	}
	return &wireError{Code: codeInvalidJSON, Message: "the message is not JSON: " + err.Error()}
}

func notAnObject() *wireError {
	return validationError([]episode.ErrorItem{errorItem("model_type", nil,
		`a message is a JSON object such as {"type":"state"}`)})
}

// readKind reads the type of a message, "" for one that is unknown or no string.
func readKind(value jsontext.Value) messageKind {
	switch string(value) { // as nearly every client writes them
	case `"step"`:
		return stepMessage
	case `"reset"`:
		return resetMessage
	case `"state"`:
		return stateMessage
	}
	var name string
	if value.Kind() != '"' || json.Unmarshal(value, &name) != nil {
		return ""
	}
	kind := messageKind(name)
	if !slices.Contains(messageKinds, kind) {
		return ""
	}
	return kind
}

// takeData checks the data that the kind of message must have, may have or must not have.
func (m *message) takeData(data jsontext.Value) []episode.ErrorItem {
	dataless := m.kind == stateMessage || m.kind == closeMessage
	switch {
	case dataless && data != nil:
		return []episode.ErrorItem{errorItem("extra_forbidden", data, fmt.Sprintf("a %s message has no data", m.kind),
			"data")}
	case m.kind == stepMessage && data == nil:
		return []episode.ErrorItem{errorItem("missing", nil, "a step message has the action's fields in data", "data")}
	case m.kind == mcpMessage && data == nil:
		return []episode.ErrorItem{errorItem("missing", nil, "an mcp message has a JSON-RPC request in data", "data")}
	case data != nil && data.Kind() != '{':
		return []episode.ErrorItem{errorItem("dict_type", data, "data should be a JSON object", "data")}
	}
	m.data = data
	return nil
}

// maxEcho bounds, in bytes, the input that an error repeats.
const maxEcho = 512

// errorItem is one fault in the shape of pydantic's.
func errorItem(kind string, input jsontext.Value, msg string, loc ...any) episode.ErrorItem {
	item := episode.ErrorItem{Type: kind, Loc: loc, Msg: msg}
	if loc == nil {
		item.Loc = []any{}
	}
	if len(input) <= maxEcho {
		item.Input = []byte(input)
	}
	return item
}

// shown quotes a value for a person, in short.
func shown(value jsontext.Value) string {
	if value == nil {
		return "(none)"
	}
	if len(value) > 64 {
		return strconv.Quote(string(value[:64])) + "…"
	}
	return string(value)
}
