package load

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/openenv/client"
)

func TestCandidates(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		want   []string
	}{
		"the stock echo": {
			`{"properties":{"metadata":{"type":"object"},"message":{"type":"string"}},"required":["message"],"type":"object"}`, []string{`{"message":"How are you?"}`}},
		"types": {
			`{"$defs":{"P":{"type":"object","properties":{"x":{"type":"integer","minimum":3}},"required":["x"]}},"required":["a","b","c","d","e","f"],
			"properties":{"a":{"$ref":"#/$defs/P"},"b":{"type":"boolean"},"c":{"anyOf":[{"type":"null"},{"type":"array"}]},"d":{"const":7},"e":{"enum":["one"]},"f":{"type":"number","default":0.5}}}`,
			[]string{`{"a":{"x":3},"b":false,"c":[],"d":7,"e":"one","f":0.5}`},
		},
		"variants with conditions": {
			`{"properties":{"kind":{"enum":["say","go"]},"text":{"anyOf":[{"type":"string"},{"type":"null"}]},"to":{"enum":["north"]}},"required":["kind"],
			"allOf":[{"if":{"properties":{"kind":{"const":"say"}}},"then":{"required":["text"],"properties":{"text":{"not":{"type":"null"}}}}},
			{"if":{"properties":{"kind":{"const":"go"}}},"then":{"anyOf":[{"required":["to"]},{"required":["text"]}]}}]}`,
			[]string{`{"kind":"say","text":"How are you?"}`, `{"kind":"go","to":"north"}`},
		},
		"a circle": {`{"$defs":{"A":{"$ref":"#/$defs/A"}},"properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"]}`,
			[]string{`{"a":"How are you?"}`}},
		"a tree": {
			`{"$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"]}},"allOf":[{"$ref":"#/$defs/A"}]}`, nil},
		"nothing":   {`{}`, []string{`{}`}},
		"no schema": {`[]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := candidates(json.RawMessage(c.schema))
			var texts []string
			for _, action := range got {
				texts = append(texts, string(action))
			}
			if name == "a tree" {
				if err != nil || len(texts) != 1 {
					t.Errorf("%v, %v: want an end", texts, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, texts); diff != "" || (err != nil) != (c.want == nil) {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// The guess for an environment of csenv is an action that it plays, and that doesn't end the
// episode.
func TestGuess(t *testing.T) {
	_, front := serve(t, 2)
	action, err := Guess(t.Context(), front.URL, nil, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := searches(front.URL, 2)
	cfg.Actions = []json.RawMessage{action}
	if got, err := Run(t.Context(), cfg); err != nil || len(got.Failures) != 0 || got.Steps == 0 {
		t.Errorf("a load of %s: %d steps, %v, %v", action, got.Steps, got.Failures, err)
	}
	if err := Try(t.Context(), front.URL, nil, json.RawMessage(`{"action_type":"fly"}`),
		client.Options{}); err == nil || !strings.Contains(
		err.Error(), `refuses the action {"action_type":"fly"}`) {
		t.Errorf("an unknown action: %v", err)
	}
	if err := Try(t.Context(), front.URL, json.RawMessage(`{"task":"juggle"}`), action,
		client.Options{}); err == nil {
		t.Error("an unknown task")
	}
}

func TestGuessAsksTheServer(t *testing.T) {
	denied := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer denied.Close()
	_, err := Guess(t.Context(), denied.URL, nil, client.Options{})
	if refused, ok := errors.AsType[*client.StatusError](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("a server that wants a token: %v", err)
	}
}
