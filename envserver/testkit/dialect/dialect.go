// Package dialect makes endpoints for tests: each takes requests and answers as one of the servers
// and providers that speak OpenAI's chat completions does.
package dialect

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
)

// Dialect is how an endpoint differs from OpenAI's protocol.
type Dialect struct {
	Name string
	// Source is where the behaviour is documented or reported.
	Source string
	// Refuse returns why the endpoint refuses a request: a status and a body, 0 if it accepts it.
	Refuse func(r *http.Request, asked Object) (status int, body string)
	// Answer changes the body of an answer; nil for no change.
	Answer func(asked, body, message Object)
	// Write writes the body; nil for JSON.
	Write func(w http.ResponseWriter, body Object)
}

// Servers returns the dialects of programs that serve models, and of gateways in front of them.
func Servers() []Dialect { return servers }

// Providers returns the dialects of services.
func Providers() []Dialect { return providers }

// Object is a JSON object.
type Object = map[string]any

// Wrap returns an endpoint that speaks the dialect. What it accepts, the plain endpoint answers.
func (d Dialect) Wrap(plain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var asked Object
		if err == nil {
			err = json.Unmarshal(data, &asked)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		if d.Refuse != nil {
			if status, body := d.Refuse(r, asked); status != 0 {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return
			}
		}
		d.answer(w, r, plain, data, asked)
	})
}

func (d Dialect) answer(w http.ResponseWriter, r *http.Request, plain http.Handler, data []byte, asked Object) {
	r.Body = io.NopCloser(bytes.NewReader(data))
	recorded := httptest.NewRecorder()
	plain.ServeHTTP(recorded, r)
	var body Object
	if recorded.Code != http.StatusOK || json.Unmarshal(recorded.Body.Bytes(), &body) != nil {
		maps.Copy(w.Header(), recorded.Header())
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
		return
	}
	if d.Answer != nil {
		choice := FirstChoice(body)
		message, _ := choice["message"].(Object)
		if toolCalls(message) != nil {
			choice["finish_reason"] = "tool_calls"
		}
		d.Answer(asked, body, message)
	}
	if d.Write != nil {
		d.Write(w, body)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// FirstChoice is an answer's first.
func FirstChoice(body Object) Object {
	choices, _ := body["choices"].([]any)
	choice, _ := choices[0].(Object)
	return choice
}

// toolCalls are the calls of a message.
func toolCalls(message Object) []any {
	list, _ := message["tool_calls"].([]any)
	return list
}

// calledFunction is the function of a message's only call, nil without one.
func calledFunction(message Object) Object {
	for _, call := range toolCalls(message) {
		c, _ := call.(Object)
		f, _ := c["function"].(Object)
		return f
	}
	return nil
}

// filterMessages returns the messages of a request with the role.
func filterMessages(asked Object, role string) []Object {
	var out []Object
	list, _ := asked["messages"].([]any)
	for _, each := range list {
		if m, ok := each.(Object); ok && m["role"] == role {
			out = append(out, m)
		}
	}
	return out
}

// refuseMember refuses requests with a member.
func refuseMember(member string, status int, body string) func(*http.Request, Object) (int, string) {
	return func(_ *http.Request, asked Object) (int, string) {
		if asked[member] != nil {
			return status, body
		}
		return 0, ""
	}
}

// refuseAny refuses what any of the parts refuses.
func refuseAny(parts ...func(*http.Request, Object) (int, string)) func(*http.Request, Object) (int, string) {
	return func(r *http.Request, asked Object) (int, string) {
		for _, part := range parts {
			if status, body := part(r, asked); status != 0 {
				return status, body
			}
		}
		return 0, ""
	}
}

// refuseStrictTools refuses strict tools.
func refuseStrictTools(status int, body string) func(*http.Request, Object) (int, string) {
	return func(_ *http.Request, asked Object) (int, string) {
		data, err := json.Marshal(asked["tools"])
		if err == nil && strings.Contains(string(data), `"strict":true`) {
			return status, body
		}
		return 0, ""
	}
}

// refuseHistory refuses a conversation in which a message of the model isn't as it should be.
func refuseHistory(wrong func(message Object) bool, status int, body string) func(*http.Request, Object) (int, string) {
	return func(_ *http.Request, asked Object) (int, string) {
		if slices.ContainsFunc(filterMessages(asked, "assistant"), wrong) {
			return status, body
		}
		return 0, ""
	}
}
