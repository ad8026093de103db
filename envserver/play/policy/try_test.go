package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/policy"
)

// An answer that says nothing of the endpoint's settings is no reason to play nothing.
func TestTryAgain(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 3 {
			fmt.Fprint(w, `{"error": {"code": 502}}`)
			return
		}
		fmt.Fprint(w, `{"choices": [{"message": {"content": "ready"}}]}`)
	}))
	defer server.Close()
	agent, err := policy.New(policy.Config{Type: policy.TypeOpenAI,
		OpenAI: &policy.OpenAIConfig{BaseURL: server.URL, Model: "m"}}, policy.Options{Environment: "ticket",
		Wait: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Try(t.Context()); err != nil || requests != 3 {
		t.Errorf("%d requests: %v", requests, err)
	}
}

func TestTry(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		http.Error(w, "no such key: "+key, http.StatusUnauthorized)
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		agent policy.Config
		want  string
	}{
		"built in": {policy.Config{Type: policy.TypeBuiltin, Builtin: &policy.BuiltinConfig{Policy: "Random"}}, ""},
		"a model": {policy.Config{Type: policy.TypeOpenAI,
			OpenAI: &policy.OpenAIConfig{BaseURL: server.URL, Model: "m"}},
			server.URL + "/chat/completions answered 401 Unauthorized for model m: no such key: [key]"},
		"a program": {policy.Config{Type: policy.TypeHTTP, HTTP: &policy.HTTPConfig{URL: server.URL}},
			server.URL + " answered 401 Unauthorized: no such key: [key]"},
		"a container that listens": {policy.Config{Type: policy.TypeContainer,
			Container: &policy.ContainerConfig{Port: port}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			agent, err := policy.New(tc.agent, policy.Options{Environment: "ticket", Key: token})
			if err != nil {
				t.Fatal(err)
			}
			err = agent.Try(t.Context())
			if tc.want == "" && err != nil || tc.want != "" &&
				(err == nil || !strings.HasSuffix(err.Error(), tc.want)) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
			if e, ok := errors.AsType[*endpoint.Error](err); err != nil && (!ok || !e.Permanent()) {
				t.Errorf("error = %v, want a permanent one", err)
			}
		})
	}
}
