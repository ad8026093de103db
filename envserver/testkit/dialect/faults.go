package dialect

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// faults are answers that are none of the model's.
var faults = newFaults()

// Faults is the number of kinds.
var Faults = len(faults)

func newFaults() []func(w http.ResponseWriter, plain []byte) {
	say := func(status int, body string, header ...string) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, _ []byte) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	swap := func(old, new string) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, plain []byte) {
			fmt.Fprint(w, strings.Replace(string(plain), old, new, 1))
		}
	}
	return []func(http.ResponseWriter, []byte){
		say(429, `{"error": {"message": "slow down"}}`, "Retry-After", "15.5"),
		say(429, `{"error": {"message": "Rate limit reached. Please try again in 7.66s."}}`,
			"X-RateLimit-Reset-Tokens", "6m0s"),
		say(500, `{"error": {"message": "The server had an error processing your request", "type": "server_error"}}`),
		say(502, "<html>bad gateway</html>"), say(503, ""), say(529, `{"type":"error","error":{"type":"overloaded_error"}}`),
		say(408, ""), say(424, `{"error": "Request failed during generation", "error_type": "generation"}`), say(499, ""),
		say(400, `{"error": {"message": "The upstream is temporarily unavailable"}}`),
		say(200, `{"error": {"code": 429, "message": "Rate limited"}}`),
		say(200, `{"error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "upstream"}}}`),
		say(200, `{"error": "overloaded"}`), say(200, `{"object": "error", "message": "engine is dead", "code": 50001}`),
		say(200, ""), say(200, "{}"), say(200, "<html>maintenance</html>"), say(200, `{"choices": []}`),
		say(200, `{"choices": null}`), say(200, `{"choices": [{"finish_reason": "stop"}]}`), say(200, `"hello"`),
		say(200, `{"choices": [{"message": {"role": "assistant", "content": null}, "finish_reason": "stop"}]}`),
		say(200, `{"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "load"}]}`),
		say(200, `{"choices": [{"message": {"content": "", "tool_calls": 7}, "finish_reason": "stop"}]}`),
		say(200, `{"choices": [{"message": {"content": "I"}, "finish_reason": "error", "error": {"code": 502}}]}`),
		say(200, `{"choices": [{"message": {"content": ""}, "finish_reason": "insufficient_system_resource"}]}`),
		say(200, `{"choices": [{"message": {"content": ""}, "finish_reason": "tool_calls"}], "usage": `+
			`{"completion_tokens": 9}}`),
		say(200, "data: {\"choices\": [{\"delta\": {\"content\": \"I\"}}]}\n\n", "Content-Type", "text/event-stream"),
		say(200, "data: {\"error\": {\"code\": 503, \"message\": \"lost\"}}\n\n", "Content-Type", "text/event-stream"),
		say(401, `{"error": {"message": "Incorrect API key"}}`), say(402, `{"error": {"message": "no credits"}}`),
		say(403, `{"error": {"message": "not for you"}}`),
		say(404, `{"error": {"message": "The model m does not exist or you do not have access to it."}}`),
		say(400, `{"error": {"message": "ExceededBudget: the budget is used up"}}`),
		say(400, `{"error": {"message": "The response was filtered", "code": "content_filter"}}`),
		swap(`"stop"`, `"content_filter"`), swap(`"stop"`, `"error"`), swap(`"stop"`, `"abort"`), swap(`"choices"`, `"error":{"message":"lost"},"choices"`),
		say(200, "Service Unavailable", "Content-Type", "text/plain"), say(200, "null"), say(204, ""),
		say(200, "<!DOCTYPE html>\n<title>502: Bad gateway</title>", "Content-Type", "application/json"),
		say(200, "gzip, but it isn't", "Content-Encoding", "gzip"), say(200, "\x8b\x02\x80", "Content-Encoding", "br"),
		say(425, ""), say(520, "<html>unknown error</html>"), say(522, ""), say(524, "<html>a timeout occurred</html>"),
		say(530, "error code: 1033"), say(598, ""), say(421, ""), say(451, "not here"),
		say(503, "", "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)),
		say(302, "", "Location", "/login"), say(200, `{"choices": [null]}`), say(200, `{"choices": [{}]}`),
		say(200, `{"choices": [{"message": null, "finish_reason": null}]}`), say(200, `{"choices": "none"}`),
		say(200, `{"success": false, "errors": [{"code": 7000, "message": "No route"}], "result": null}`),
		say(200, `{"code": 500, "msg": "system busy"}`), say(200, `{"detail": "Not Found"}`), say(200, `{"status": "queued"}`),
		say(200, `{"choices": null, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}`),
		say(200, ": keep-alive\n\n", "Content-Type", "text/event-stream"), say(200, "data: [DONE]\n\n"),
		say(200, "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"api_error\"}}\n\n"),
		say(200, `{"choices": [{"message": {"content": "Internal Server Error"}, "finish_reason": "stop"}]}`),
		say(200, `{"choices": [{"message": {"content": "{\"error\": {\"message\": \"lost\"}}"}, "finish_reason": "stop"}]}`),
		say(200, `{"choices": [{"message": {"content": ""}, "finish_reason": "length"}], "usage": {"completion_tokens": 0}}`),
		say(200, `{"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "", "arguments": "{}"}}]}}]}`),
		say(200, `{"choices": [{"message": {"tool_calls": [null]}, "finish_reason": "tool_calls"}]}`),
		swap(`"stop"`, `"timeout"`), swap(`"choices"`, `"options"`), swap(`{`, `{"error": {"code": "503"}, `),
		func(w http.ResponseWriter, plain []byte) { _, _ = w.Write(append(plain, "</html>"...)) },
		func(http.ResponseWriter, []byte) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, plain []byte) { // without a length, in chunks without the last one
			_, _ = w.Write(plain[:len(plain)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter, plain []byte) { _, _ = w.Write(plain[:len(plain)/2]) },
		func(w http.ResponseWriter, plain []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(plain)))
			_, _ = w.Write(plain[:len(plain)/2])
			panic(http.ErrAbortHandler)
		},
	}
}

// Faulty answers a quarter of the requests with one of the faults. Which, follows from the seed,
// from the request and from how often it was sent.
type Faulty struct {
	plain http.Handler
	seed  int

	mu       sync.Mutex
	sent     map[string]int
	injected map[int]int
}

// NewFaulty makes a faulty endpoint in front of another one.
func NewFaulty(plain http.Handler, seed int) *Faulty {
	return &Faulty{plain: plain, seed: seed, sent: map[string]int{}, injected: map[int]int{}}
}

// Kinds returns which faults have been injected.
func (f *Faulty) Kinds() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.injected))
}

// ServeHTTP implements http.Handler.
func (f *Faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.sent[string(body)]++
	sum := sha256.Sum256(fmt.Appendf(body, "%d %d", f.seed, f.sent[string(body)]))
	faulty, which := sum[0] < 64, int(sum[1])%Faults // 64 of 256
	if faulty {
		f.injected[which]++
	}
	f.mu.Unlock()
	recorded := httptest.NewRecorder()
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.plain.ServeHTTP(recorded, r)
	if !faulty {
		_, _ = w.Write(recorded.Body.Bytes())
		return
	}
	faults[which](w, recorded.Body.Bytes())
}
