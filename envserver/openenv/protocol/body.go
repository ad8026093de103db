package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/csenv/csenv/envserver/episode"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	if err := Encode(&out, v); err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	WriteBytes(w, status, out.Bytes())
}

// WriteBytes answers with JSON text.
func WriteBytes(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
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

// ReadObject reads a body that is a JSON object, or answers with its fault. It returns nil for an
// optional body that is absent or null.
func ReadObject(w http.ResponseWriter, r *http.Request, rule BodyRule) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		WriteDetail(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the body can't be read, or is larger than %d bytes", MaxBody))
		return nil, false
	}
	body = bytes.TrimSpace(body)
	if rule == OptionalBody && (len(body) == 0 || string(body) == "null") {
		return nil, true
	}
	if len(body) == 0 {
		WriteItems(w, []episode.ErrorItem{NewErrorItem("missing", nil, "Field required", "body")})
		return nil, false
	}
	var probe jsontext.Value
	if err := jsonv2.Unmarshal(body, &probe); err != nil {
		offset := int64(0)
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			offset = syntax.ByteOffset
		}
		WriteItems(w, []episode.ErrorItem{NewErrorItem("json_invalid", jsontext.Value("{}"),
			"JSON decode error: "+err.Error(), "body", offset)})
		return nil, false
	}
	if probe.Kind() != '{' {
		WriteItems(w, []episode.ErrorItem{NewErrorItem("model_attributes_type", probe,
			"the body should be a JSON object", "body")})
		return nil, false
	}
	return body, true
}

// SessionHeader names the session of a plain HTTP request, and of a WebSocket in the answer to its
// handshake.
const SessionHeader = "X-Session-Id"

// SessionIDOf returns the session that a request names in its query or else in a header.
func SessionIDOf(r *http.Request) string {
	if id := r.URL.Query().Get("session_id"); id != "" {
		return id
	}
	return r.Header.Get(SessionHeader)
}

// SessionIDIn returns the session that a body names, "" for none.
func SessionIDIn(body []byte) (string, []episode.ErrorItem) {
	var d struct {
		SessionID jsontext.Value `json:"session_id"`
	}
	r := OptionReader{Where: "body"}
	if len(body) > 0 && jsonv2.Unmarshal(body, &d) == nil {
		return r.Text("session_id", d.SessionID), r.Items
	}
	return "", nil
}
