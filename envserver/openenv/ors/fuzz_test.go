package ors

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/csenv/csenv/envserver/openenv/documents"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// FuzzBodies checks that every body of a client is decoded to valid JSON or to faults.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{`{"name":"say","input":{"a":null,"b":1},"task_id":"x"}`, `{"split":"train","index":1}`,
		`{"task_spec":{"seed":null,"task":7},"env_name":"talk"}`, `{"name":"\u0000","input":{"\u0001":"\ud800"}}`} {
		f.Add([]byte(seed))
	}
	routes := Routes{Kind: echo.Kind{}, Tasks: documents.NewTasks(echo.Kind{})}
	f.Fuzz(func(t *testing.T, body []byte) {
		if called, items := parseCall(body); len(items) == 0 && (called.name == "" || !json.Valid(called.arguments)) {
			t.Errorf("the call %q is %q %q", body, called.name, called.arguments)
		}
		options, items := routes.resetOptions(httptest.NewRequest(http.MethodPost, "/create", nil), body)
		if len(items) == 0 && !json.Valid(options) {
			t.Errorf("the options of %q are %q", body, options)
		}
	})
}
