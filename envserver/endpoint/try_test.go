package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const key = "sk-secret-of-the-test"

func serviceAt(url string) Service {
	return Service{BaseURL: url, Key: key, Timeout: time.Second, MaxBody: 1 << 20, HTTPClient: &http.Client{},
		Now: time.Now}
}

const ready = `{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices":
	[{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ready"}}]}`

func TestTry(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		class  Class
		// want is a part of the error, or "" for success.
		want      string
		permanent bool
		requests  int
	}{
		"answers": {http.StatusOK, ready, Completed, "", false, 1},
		"bad key": {401, `{"error": {"message": "Incorrect API key provided: ` + key + `."}}`, Unauthorised,
			"/v1/chat/completions answered 401 Unauthorized for model gpt-4: Incorrect API key provided: [key].",
			true, 1},
		"forbidden": {403, `{"detail": "no access"}`, Rejected, "403 Forbidden for model gpt-4: no access", true, 1},
		"no such model": {404, `{"error": {"message": "The model gpt-4 does not exist"}}`, Rejected,
			"404 Not Found for model gpt-4: The model gpt-4 does not exist", true, 1},
		"a gateway's no such model": {400, `{"error": "Invalid model name"}`, Rejected,
			"400 Bad Request for model gpt-4: Invalid model name", true, 2},
		"a page": {200, `<html>welcome</html>`, Unclear, "asking the endpoint http://", true, 1},
		"moved":  {301, ``, Rejected, "301 Moved Permanently", true, 1},
		"overload": {429, `{"message": "slow down"}`, Throttled, "429 Too Many Requests for model gpt-4: slow down",
			false, 1},
		"no server": {503, "upstream\n\n\x1b[31mdown", ServerError, "for model gpt-4: upstream [31mdown", false, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+key {
					t.Errorf("%s with the key %q", r.URL, r.Header.Get("Authorization"))
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			defer server.Close()
			err := NewCompletions(serviceAt(server.URL+"/v1")).Try(t.Context(), "gpt-4", nil)
			e, failed := errors.AsType[*Error](err)
			if failed != (tc.want != "") || ClassOf(err) != tc.class || requests != tc.requests {
				t.Fatalf("%d requests, class %v: %v", requests, ClassOf(err), err)
			}
			if failed && (!strings.Contains(e.Error(), tc.want) || e.Permanent() != tc.permanent) {
				t.Errorf("permanent %v: %v, want %q", e.Permanent(), e, tc.want)
			}
			if failed && strings.Contains(e.Error(), key) {
				t.Errorf("the error contains the key: %v", e)
			}
		})
	}
}

// The request has the members of all requests, and no bound that the model refuses.
func TestTrySendsWhatTheModelAccepts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["provider"] != "x" {
			t.Errorf("body %v (%v)", body, err)
		}
		w.Header().Set("Content-Type", "application/json")
		if body["max_tokens"] != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, ready)
	}))
	defer server.Close()
	extra := map[string]json.RawMessage{"provider": json.RawMessage(`"x"`)}
	if err := NewCompletions(serviceAt(server.URL)).Try(t.Context(), "gpt-4", extra); err != nil {
		t.Error(err)
	}
}

func TestTryOfADeadAddress(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	for name, try := range map[string]func(context.Context) error{
		"a model": func(ctx context.Context) error {
			return NewCompletions(serviceAt(server.URL)).Try(ctx, "m", nil)
		},
		"a program": func(ctx context.Context) error { return TryURL(ctx, serviceAt(server.URL)) },
	} {
		e, ok := errors.AsType[*Error](try(t.Context()))
		if !ok || e.Class != Broken || e.Permanent() || !strings.Contains(e.Error(), server.URL) ||
			!strings.Contains(e.Error(), "connection refused") {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestTryOfAnUntrustedCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = nil
	e, ok := errors.AsType[*Error](TryURL(t.Context(), serviceAt(server.URL)))
	if !ok || !e.Permanent() || !strings.Contains(e.Error(), "certificate") {
		t.Errorf("error = %v", e)
	}
}

func TestTryURL(t *testing.T) {
	for status, permanent := range map[int]bool{200: false, 401: true, 403: true, 404: false, 405: false, 501: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer "+key {
				t.Errorf("%s with the key %q", r.Method, r.Header.Get("Authorization"))
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "for no reason "+key)
		}))
		err := TryURL(t.Context(), serviceAt(server.URL+"/?token="+key))
		e, failed := errors.AsType[*Error](err)
		if failed != permanent || failed && (!e.Permanent() || strings.Contains(e.Error(), key) ||
			!strings.HasSuffix(e.Error(), ": for no reason [key]")) {
			t.Errorf("%d: %v", status, err)
		}
		server.Close()
	}
}

func TestWords(t *testing.T) {
	long := strings.Repeat("ü", 400)
	tests := map[string]struct{ body, want string }{
		"OpenAI":   {`{"error": {"message": "a\nb", "param": null}}`, "a b"},
		"a string": {`{"error": "a"}`, "a"},
		"FastAPI": {`{"detail": [{"loc": ["body", "seed"], "msg": "not permitted"}]}`,
			"body.seed: not permitted"},
		"nested": {`{"error": {"message": "Provider error", "metadata": {"raw": "{\"detail\": \"no seed\"}"}}}`,
			"Provider error: no seed"},
		"several":              {`{"success": false, "errors": [{"code": 7, "message": "a"}, {"message": "b"}]}`, "a: b"},
		"a sentence with JSON": {`{"message": "litellm.BadRequestError: {\"error\": {\"message\": \"a\"}}"}`, "a"},
		"other":                {`{"reason": "a"}`, `{"reason": "a"}`},
		"no text":              {`{"error": {"code": 7}}`, `{"error": {"code": 7}}`},
		"null":                 {`{"error": null, "message": "a"}`, "a"},
		"not JSON":             {" a \x00\u202e b ", "a b"},
		"empty":                {"", ""},
		"not UTF-8":            {"a\xff", "a"},
		"a key":                {`{"error": "key ` + key + `"}`, "key [key]"},
	}
	for name, tc := range tests {
		if got := ErrorWords([]byte(tc.body), key); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := ErrorWords([]byte(long), ""); len(got) > MaxWords || len(got) < MaxWords-3 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	// A key at the limit is replaced before the text is cut.
	if got := ErrorWords([]byte(strings.Repeat("x", MaxWords-10)+key), key); strings.Contains(got, "sk-") {
		t.Errorf("a part of the key: %s", got)
	}
}

func TestWithoutSecrets(t *testing.T) {
	if got := WithoutSecrets("https://u:p@h/v1?key=k#f"); got != "https://h/v1" {
		t.Errorf("got %s", got)
	}
}
