package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/endpoint"
)

const (
	// maxAction bounds an action, in bytes. It is more than any environment accepts, and less than
	// a server reads.
	maxAction = 64 << 10
	// maxShown bounds, in bytes, the stored part of an answer that isn't an action.
	maxShown = 2 << 10
	// maxSaid bounds, in bytes, the stored part of a model's text around its action.
	maxSaid = 8 << 10
)

// parseAction returns the action for an answer. A JSON object is encoded again, so that the last of
// duplicate names also counts on the server. Any other answer becomes an action whose type is the
// text, which the environment refuses and counts. So no answer can end an episode without a score.
func parseAction(answer []byte) json.RawMessage {
	if object := reencodeObject(answer); object != nil {
		return object
	}
	return noAction(string(answer))
}

// reencodeObject encodes the text again if it is one JSON object, and returns nil otherwise.
func reencodeObject(text []byte) json.RawMessage {
	if len(text) > maxAction {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var object map[string]any
	if dec.Decode(&object) != nil || object == nil {
		return nil
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil
	}
	out, err := json.Marshal(object)
	// The server decodes strictly, one level deeper.
	if err != nil || !jsontext.Value(`{"data":`+string(out)+`}`).IsValid() {
		return nil
	}
	return out
}

func noAction(text string) json.RawMessage {
	text = clipText(strings.TrimSpace(text), maxShown)
	if text == "" {
		text = "(nothing)"
	}
	quoted, _ := jsontext.AppendQuote(nil, text) // clip has made it valid UTF-8
	return fmt.Appendf(nil, `{"%s":%s}`, actionType, quoted)
}

// clipText shortens a text to about that many bytes and marks the cut.
func clipText(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + " […]"
}

// objectIn returns the object in a model's text. JSON objects come before Python dicts.
func objectIn(content string) json.RawMessage {
	candidates := endpoint.ListObjects(content)
	for _, read := range []func(string) string{func(text string) string { return text }, looseObject} {
		for _, candidate := range candidates {
			if object := reencodeObject([]byte(read(candidate))); object != nil {
				return unwrapAction(object)
			}
		}
	}
	return nil
}

// looseObject writes a text as JSON that is an object in another notation.
func looseObject(text string) string {
	text = strings.TrimSpace(text)
	written, n := endpoint.LooseJSON(text)
	if n < len(text) {
		return ""
	}
	return written
}

// unwrapAction returns the action in an object that holds nothing else, as actionSchema requires
// it.
func unwrapAction(object json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) == nil && len(members) == 1 && reencodeObject(members[wrapped]) != nil {
		return members[wrapped]
	}
	return object
}
