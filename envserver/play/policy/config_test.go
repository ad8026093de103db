package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/play/policy"
)

func TestParseConfig(t *testing.T) {
	tests := map[string]struct {
		text string
		want string
	}{
		"builtin": {`{"type":"Builtin","builtin":{"policy":"Heuristic"}}`, ""},
		"model": {
			`{"type":"OpenAI","openAI":{"baseURL":"https://api.openai.com/v1","model":"gpt","mode":"Tools",` +
				`"temperature":0.7,"maxTokens":9,"requestsPerMinute":5,"timeoutSeconds":9,` +
				`"systemPrompt":"Be kind.","extraBody":{"top_k":1}}}`, ""},
		"http": {`{"type":"HTTP","http":{"url":"http://agent:8080/act?mode=fast","timeoutSeconds":3600}}`,
			""},
		"container": {`{"type":"Container","container":{}}`, ""},
		"no JSON":   {`Heuristic`, "reading the agent: invalid character"},
		"misspelt":  {`{"type":"OpenAI","openAI":{"baseUrl":"x","modell":"y"}}`, `unknown field "modell"`},
		"more":      {`{"type":"Container","container":{}} {}`, "text follows"},
		"no type":   {`{}`, `the agent's type is ""`},
		"external": {`{"type":"External"}`,
			`the agent's type is "External": use one of Builtin, OpenAI, HTTP, Container`},
		"no settings": {`{"type":"HTTP"}`, "the settings of an agent of type HTTP are missing"},
		"two": {`{"type":"HTTP","http":{"url":"http://a"},"container":{}}`,
			"but it has settings of type Container"},
		"no model": {`{"type":"OpenAI","openAI":{"baseURL":"http://a/v1"}}`, "the agent's model is"},
		"spaces": {`{"type":"OpenAI","openAI":{"baseURL":"http://a/v1","model":"a b"}}`,
			"the agent's model is"},
		"query": {`{"type":"OpenAI","openAI":{"baseURL":"http://a/v1?key=secret","model":"a"}}`,
			"the agent's baseURL is no URL of an endpoint"},
		"password": {`{"type":"HTTP","http":{"url":"http://me:secret@a/"}}`, "the agent's url must be"},
		"scheme":   {`{"type":"HTTP","http":{"url":"ftp://secret/"}}`, "the agent's url must be"},
		"mode": {`{"type":"OpenAI","openAI":{"baseURL":"http://a","model":"a","mode":"Prose"}}`,
			"choose Tools or JSON"},
		"temperature": {`{"type":"OpenAI","openAI":{"baseURL":"http://a","model":"a","temperature":3}}`,
			"a number from 0 to 2"},
		"no temperature": {`{"type":"OpenAI","openAI":{"baseURL":"http://a","model":"a","temperature":"NaN"}}`,
			"invalid number literal"},
		"negative": {`{"type":"OpenAI","openAI":{"baseURL":"http://a","model":"a","maxTokens":-1}}`,
			"must be positive"},
		"time": {`{"type":"HTTP","http":{"url":"http://a","timeoutSeconds":3601}}`,
			"it is from 1 to 3600"},
		"extra list": {`{"type":"OpenAI","openAI":{"baseURL":"http://a","model":"a","extraBody":[1]}}`,
			"extraBody must be a JSON object"},
		"extra messages": {
			`{"type":"OpenAI","openAI":{"baseURL":"http://a","model":"a","extraBody":{"messages":[]}}}`,
			`holds "messages", which csenv sets itself`},
		"long prompt": {`{"type":"OpenAI","openAI":{"baseURL":"http://a","model":"a","systemPrompt":"` +
			strings.Repeat("a", 33<<10) + `"}}`, "systemPrompt has 33792 characters"},
		"port":               {`{"type":"Container","container":{"port":70000}}`, "the agent's port is 70000"},
		"path":               {`{"type":"Container","container":{"path":"act"}}`, "it begins with /"},
		"unknown policy":     {`{"type":"Builtin","builtin":{"policy":"Genius"}}`, `unknown policy "Genius"`},
		"oracle without all": {`{"type":"Builtin","builtin":{"policy":"Oracle"}}`, "needs the catalogue"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config, err := policy.ParseConfig([]byte(tc.text))
			if err == nil {
				_, err = policy.New(config, policy.Options{Environment: "ticket"})
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

// An agent gets the time that its requests, its waiting and its turn may take. A built-in policy
// has no timeout.
func TestActTimeout(t *testing.T) {
	model := policy.OpenAIConfig{TimeoutSeconds: 10}
	slow := policy.OpenAIConfig{TimeoutSeconds: 10, RequestsPerMinute: 10}
	tests := map[string]struct {
		config policy.Config
		want   time.Duration
	}{
		"builtin": {policy.Config{Builtin: &policy.BuiltinConfig{}}, 0},
		"model":   {policy.Config{OpenAI: &model}, 50*time.Second + 6*time.Minute},
		"slow":    {policy.Config{OpenAI: &slow}, 50*time.Second + 6*time.Minute + 16*4*6*time.Second},
		"http":    {policy.Config{HTTP: &policy.HTTPConfig{}}, 10*time.Minute + 6*time.Minute},
		"container": {policy.Config{Container: &policy.ContainerConfig{}}, 10*time.Minute + 6*time.Minute +
			10*time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.config.ActTimeout(policy.Options{Concurrency: 16, Share: 4}); got != tc.want {
				t.Errorf("ActTimeout() = %v, want %v", got, tc.want)
			}
		})
	}
}
