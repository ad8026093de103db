package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
)

// MessageKind is the type of a message that a client may send on /ws.
type MessageKind string

// The types of inbound messages.
const (
	ResetMessage MessageKind = "reset"
	StepMessage  MessageKind = "step"
	StateMessage MessageKind = "state"
	CloseMessage MessageKind = "close"
	MCPMessage   MessageKind = "mcp"
)

var messageKinds = []MessageKind{ResetMessage, StepMessage, StateMessage, CloseMessage, MCPMessage}

// Message is a decoded inbound message. Its data is a JSON object for reset, step and mcp, and nil
// for the others. It may share the memory of the frame.
type Message struct {
	Kind MessageKind
	Data jsontext.Value
}

// DecodeMessage reads a frame strictly: names are case-sensitive and not repeated, and only type
// and data are allowed. The server answers with its error.
func DecodeMessage(raw []byte) (Message, *Error) {
	raw = repairSurrogates(raw)
	if data := stepData(raw); data != nil {
		return Message{Kind: StepMessage, Data: data}, nil
	}
	members, err := object.Read(raw, object.Unique)
	gaps := false
	if err != nil {
		var text []byte
		if text, gaps = fillGaps(raw); gaps {
			members, err = object.Read(text, object.Unique)
		}
	}
	if err != nil {
		return Message{}, envelopeError(err)
	}
	var kind, data jsontext.Value
	extra := members.Take(map[string]*jsontext.Value{"type": &kind, "data": &data})
	m := Message{Kind: readKind(kind)}
	if gaps && m.Kind != ResetMessage {
		return Message{}, &Error{Code: CodeInvalidJSON,
			Message: "the message is not JSON: NaN and Infinity may be in a reset only, where they mean null"}
	}
	if m.Kind == "" {
		return Message{}, &Error{Code: CodeUnknownType,
			Message: fmt.Sprintf("unknown message type %s: send reset, step, state, mcp or close", clipValue(kind))}
	}
	if items := append(m.takeData(data), ExtraItems(m.Kind, extra)...); len(items) > 0 {
		return Message{}, validationError(items)
	}
	m.Data = m.Data.Clone()
	return m, nil
}

// gapTexts are what Python's json writes for numbers that JSON doesn't have.
var gapTexts = []string{"-Infinity", "Infinity", "NaN"}

// fillGaps replaces NaN and the infinities outside of strings by null: pandas writes them where a
// row has no value. It reports whether there were any.
func fillGaps(raw []byte) (filled []byte, found bool) {
	if !bytes.Contains(raw, []byte("NaN")) && !bytes.Contains(raw, []byte("Infinity")) {
		return raw, false
	}
	defer object.AcquireScanSlot(len(raw))()
	filled = make([]byte, 0, len(raw)+16)
	for i, inText := 0, false; i < len(raw); {
		if inText && raw[i] == '\\' && i+1 < len(raw) {
			filled = append(filled, raw[i], raw[i+1])
			i += 2
			continue
		}
		if raw[i] == '"' {
			inText = !inText
		}
		if n := gapLength(raw[i:]); n > 0 && !inText {
			filled, found = append(filled, "null"...), true
			i += n
			continue
		}
		filled = append(filled, raw[i])
		i++
	}
	return filled, found
}

// gapLength is the length of the gap at the beginning of a text, 0 for none.
func gapLength(text []byte) int {
	for _, gap := range gapTexts {
		if len(text) >= len(gap) && string(text[:len(gap)]) == gap {
			return len(gap)
		}
	}
	return 0
}

// blanks are the characters between the parts of JSON.
const blanks = " \t\r\n"

// stepData returns the data of a step message in the form that nearly every client writes, nil for
// every other message. It halves the time of decoding a step's envelope.
func stepData(raw []byte) jsontext.Value {
	if len(raw) > object.Large {
		return nil
	}
	for _, literal := range []string{"{", `"type"`, ":", `"step"`, ",", `"data"`, ":"} {
		var ok bool
		if raw, ok = skipLiteral(raw, literal); !ok {
			return nil
		}
	}
	inner, ok := bytes.CutSuffix(raw, []byte("}"))
	// With further members the rest is not one value.
	if data := jsontext.Value(bytes.Trim(inner, blanks)); ok && data.Kind() == '{' &&
		(object.IsPlain(data) || data.IsValid(jsontext.AllowDuplicateNames(true))) {
		return data
	}
	return nil
}

// skipLiteral skips blanks and a literal. It reports whether the text began with them.
func skipLiteral(text []byte, literal string) (rest []byte, ok bool) {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || text[0] == '\r') {
		text = text[1:]
	}
	if len(text) < len(literal) || string(text[:len(literal)]) != literal {
		return text, false
	}
	return text[len(literal):], true
}

// ExtraItems returns an error item for each unknown member, ordered by name, and at most
// episode.MaxErrorItems of them.
func ExtraItems(kind MessageKind, extra object.Object) []episode.ErrorItem {
	sorted := slices.SortedFunc(slices.Values(extra),
		func(a, b object.Member) int { return strings.Compare(a.Name, b.Name) })
	items := make([]episode.ErrorItem, 0, min(len(extra), episode.MaxErrorItems))
	for _, m := range sorted[:cap(items)] {
		name := object.ClipName(m.Name)
		items = append(items, NewErrorItem("extra_forbidden", m.Value,
			fmt.Sprintf("a %s message has no %q", kind, name),
			name))
	}
	return items
}

// envelopeError distinguishes text that is not JSON from JSON that is not a message.
func envelopeError(err error) *Error {
	switch {
	case errors.Is(err, object.ErrNoObject):
		return notAnObject()
	case errors.Is(err, object.ErrTooMany):
		return validationError([]episode.ErrorItem{NewErrorItem("too_long", nil,
			fmt.Sprintf("a message has at most %d members", object.MaxMembers))})
	}
	return &Error{Code: CodeInvalidJSON, Message: "the message is not JSON: " + ClipMessage(err.Error())}
}

func notAnObject() *Error {
	return validationError([]episode.ErrorItem{NewErrorItem("model_type", nil,
		`a message is a JSON object such as {"type":"state"}`)})
}

// readKind reads the type of a message, "" for an unknown one.
func readKind(value jsontext.Value) MessageKind {
	switch string(value) { // as nearly every client writes them
	case `"step"`:
		return StepMessage
	case `"reset"`:
		return ResetMessage
	case `"state"`:
		return StateMessage
	}
	var name string
	if value.Kind() != '"' || jsonv2.Unmarshal(value, &name) != nil {
		return ""
	}
	kind := MessageKind(name)
	if !slices.Contains(messageKinds, kind) {
		return ""
	}
	return kind
}

// takeData checks the data that the kind of message must have, may have or must not have.
func (m *Message) takeData(data jsontext.Value) []episode.ErrorItem {
	dataless := m.Kind == StateMessage || m.Kind == CloseMessage
	switch {
	case dataless && data != nil:
		return dataItem("extra_forbidden", data, fmt.Sprintf("a %s message has no data", m.Kind))
	case m.Kind == StepMessage && data == nil:
		return dataItem("missing", nil, "a step message has the action's fields in data")
	case m.Kind == MCPMessage && data == nil:
		return dataItem("missing", nil, "an mcp message has a JSON-RPC request in data")
	case data != nil && data.Kind() != '{':
		return dataItem("dict_type", data, "data should be a JSON object")
	}
	m.Data = data
	return nil
}

func dataItem(kind string, data jsontext.Value, msg string) []episode.ErrorItem {
	return []episode.ErrorItem{NewErrorItem(kind, data, msg, "data")}
}

// maxEcho bounds the input that an error repeats, in bytes.
const maxEcho = 512

// NewErrorItem makes an error in the shape of pydantic's.
func NewErrorItem(kind string, input jsontext.Value, msg string, loc ...any) episode.ErrorItem {
	item := episode.ErrorItem{Type: kind, Loc: loc, Msg: msg}
	if loc == nil {
		item.Loc = []any{}
	}
	if len(input) <= maxEcho {
		item.Input = []byte(input)
	}
	return item
}

// clipValue quotes the beginning of a value.
func clipValue(value jsontext.Value) string {
	if value == nil {
		return "(none)"
	}
	if len(value) > 64 {
		return strconv.Quote(string(value[:64])) + "…"
	}
	return string(value)
}

// ReadText reads a JSON string.
func ReadText(value jsontext.Value) (string, bool) {
	var text string
	if value.Kind() != '"' || jsonv2.Unmarshal(value, &text) != nil {
		return "", false
	}
	return text, true
}
