package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
)

// WriteItems answers 422 with the faults of a body.
func WriteItems(w http.ResponseWriter, items []episode.ErrorItem) {
	WriteJSON(w, http.StatusUnprocessableEntity, map[string]any{"detail": items})
}

// WriteDetail answers with an error.
func WriteDetail(w http.ResponseWriter, status int, detail string) {
	WriteJSON(w, status, map[string]string{"detail": detail})
}

// WriteJSON answers with the JSON of v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	var out bytes.Buffer
	if err := EncodeJSON(&out, v); err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	WriteBytes(w, status, out.Bytes())
}

// WriteBytes answers with JSON text.
func WriteBytes(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// BodyRule is whether a request may come without a body.
type BodyRule bool

// The rules of bodies.
const (
	OptionalBody BodyRule = false
	RequiredBody BodyRule = true
)

// Body is a request's body that was read as a whole.
type Body struct {
	bytes.Reader
	all []byte
}

// NewBody makes the body of a text.
func NewBody(text []byte) *Body {
	b := &Body{all: text}
	b.Reset(text)
	return b
}

// Close does nothing.
func (*Body) Close() error { return nil }

// BodyOf returns the body of a request that the server has read, nil for none.
func BodyOf(r *http.Request) []byte {
	if b, ok := r.Body.(*Body); ok {
		return b.all
	}
	return nil
}

// ReadObject returns a body that is a JSON object, or answers with its fault. It returns nil for an
// optional body that is absent or null.
func ReadObject(w http.ResponseWriter, r *http.Request, rule BodyRule) ([]byte, bool) {
	body := repairSurrogates(bytes.TrimSpace(BodyOf(r)))
	if rule == OptionalBody && (len(body) == 0 || string(body) == "null") {
		return nil, true
	}
	if len(body) == 0 {
		WriteItems(w, []episode.ErrorItem{NewErrorItem("missing", nil, "Field required", "body")})
		return nil, false
	}
	_, err := object.Read(body, object.Unique)
	if err != nil && rule == OptionalBody { // a reset
		if filled, found := fillGaps(body); found {
			body = filled
			_, err = object.Read(body, object.Unique)
		}
	}
	if err != nil {
		WriteItems(w, []episode.ErrorItem{bodyItem(body, err)})
		return nil, false
	}
	return body, true
}

// bodyItem describes why a body is not an object that can be read.
func bodyItem(body []byte, err error) episode.ErrorItem {
	syntax, isSyntax := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, object.ErrNoObject):
		return NewErrorItem("model_attributes_type", body, "the body should be a JSON object", "body")
	case errors.Is(err, object.ErrTooMany):
		return NewErrorItem("too_long", nil, fmt.Sprintf("a body has at most %d members", object.MaxMembers), "body")
	case isSyntax:
		return NewErrorItem("json_invalid", jsontext.Value("{}"), ClipMessage("JSON decode error: "+err.Error()),
			"body", syntax.ByteOffset)
	}
	return NewErrorItem("json_invalid", jsontext.Value("{}"), ClipMessage("JSON decode error: "+err.Error()), "body", 0)
}

// SessionHeader names the session of a plain HTTP request, and of a WebSocket in the answer to its
// handshake.
const SessionHeader = "X-Session-Id"

// SessionIDOf returns the session that a request names in its query or else in a header.
func SessionIDOf(r *http.Request) string {
	if id := r.URL.Query().Get(sessionOption); id != "" {
		return id
	}
	return r.Header.Get(SessionHeader)
}

// SessionIDIn returns the session that a body names, "" for none.
func SessionIDIn(body []byte) (string, []episode.ErrorItem) {
	r := OptionReader{Where: "body"}
	if members, err := object.Read(body, object.Unique); err == nil {
		return r.Text(sessionOption, members.Get(sessionOption)), r.Items
	}
	return "", nil
}

// CountValues returns an upper bound of the number of values in a JSON text.
func CountValues(text []byte) int {
	return 1 + bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{"))
}
