package openenv

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// idMark begins the texts that stand for the ids of requests while the MCP library has them.
const idMark = "csenv-id:"

// keepID returns the request with a text in place of an id that the library would change, and a
// writer that puts the id into the answer again. The library reads numbers as 64-bit integers by
// way of floating point.
func keepID(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	members, err := object.Read(protocol.BodyOf(r), object.Unique)
	id := string(members.Get("id"))
	number, notNumber := strconv.ParseFloat(id, 64)
	if err != nil || notNumber != nil || strconv.FormatInt(int64(number), 10) == id {
		return w, r
	}
	text := strconv.Quote(idMark + id)
	body := []byte(`{"id":` + text)
	for _, m := range members {
		if m.Name != "id" {
			body, _ = jsontext.AppendQuote(append(body, ','), m.Name) // which was read as valid
			body = append(append(body, ':'), m.Value...)
		}
	}
	body = append(body, '}')
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = protocol.NewBody(body), int64(len(body))
	return &idWriter{ResponseWriter: w, text: []byte(text), id: []byte(id)}, r
}

// idWriter replaces the text of an id by the id. The library writes an answer in one piece.
type idWriter struct {
	http.ResponseWriter
	text, id []byte
}

func (w *idWriter) Write(answer []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(bytes.Replace(answer, w.text, w.id, 1)); err != nil {
		return 0, err
	}
	return len(answer), nil
}

// Unwrap is for http.ResponseController.
func (w *idWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
