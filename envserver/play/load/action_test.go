package load

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/server"
)

// The environment accepts the inferred action, which doesn't end the episode.
func TestInferAction(t *testing.T) {
	front := serve(t, 2)
	action, err := InferAction(t.Context(), front.URL, nil, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := searches(front.URL, 2)
	cfg.Actions = []json.RawMessage{action}
	if got, err := Run(t.Context(), cfg); err != nil || len(got.Failures) != 0 || got.Steps == 0 {
		t.Errorf("a load of %s: %d steps, %v, %v", action, got.Steps, got.Failures, err)
	}
	err = TryAction(t.Context(), front.URL, nil, json.RawMessage(`{"action_type":"fly"}`), client.Options{})
	if err == nil || !strings.Contains(err.Error(), `refuses the action {"action_type":"fly"}`) {
		t.Errorf("an unknown action: %v", err)
	}
	if err := TryAction(t.Context(), front.URL, json.RawMessage(`{"task":"juggle"}`), action, client.Options{}); err == nil {
		t.Error("no error for an unknown task")
	}
}

func TestInferActionFailsWithTheServersStatus(t *testing.T) {
	denied := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer denied.Close()
	_, err := InferAction(t.Context(), denied.URL, nil, client.Options{})
	if refused, ok := errors.AsType[*client.StatusError](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("a server that requires a token: %v", err)
	}
}

// An action exists for every task of workflows. A third-party server that refuses all of them is an
// error.
func TestInferActionOfOtherServers(t *testing.T) {
	kind, err := workflow.New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	own := server.Start(t, openenv.Config{Kind: kind})
	for _, task := range kind.Tasks() {
		reset := json.RawMessage(`{"task":"` + task.Name + `"}`)
		if action, err := InferAction(t.Context(), own.URL, reset, client.Options{}); err != nil {
			t.Errorf("%s, %s: %v", task.Name, action, err)
		}
	}
	foreign := server.Start(t, openenv.Config{Kind: echo.Kind{Refusing: true}})
	action, err := InferAction(t.Context(), foreign.URL, nil, client.Options{})
	if action != nil || !errors.As(err, new(*client.ServerError)) {
		t.Errorf("a third-party server: %s, %v", action, err)
	}
}
