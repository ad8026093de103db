package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/prose"
	"github.com/csenv/csenv/scenarios"
)

// call is a request as the model receives it.
type call struct {
	n            int
	body         map[string]any
	system, user string
	ids          []string
	statements   map[string]string // the claims by id
	// reply is the text between the fences, without marks.
	reply string
	// unsendable is the answer about the letter.
	unsendable bool
}

// read reads a request.
func read(r *http.Request, n int) (call, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return call{}, err
	}
	c := call{n: n, statements: map[string]string{}}
	var body struct {
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c.body); err != nil {
		return c, err
	}
	c.system, c.user = body.Messages[0].Content, body.Messages[len(body.Messages)-1].Content
	_, claims, _ := strings.Cut(c.user, "# The claims\n")
	for line := range strings.SplitSeq(claims, "\n") {
		id, statement, ok := strings.Cut(strings.TrimPrefix(line, "- "), ": ")
		if ok && strings.HasPrefix(line, "- c") {
			c.ids, c.statements[id] = append(c.ids, id), statement
		}
	}
	_, reply, _ := strings.Cut(c.user, "# The reply to be checked (from the agent)\n")
	fence, reply, _ := strings.Cut(reply, "\n")
	reply, _, _ = strings.Cut(reply, "\n"+fence)
	c.reply = removeDatamark(reply)
	return c, nil
}

// verdicts gives every claim the same verdict, except that it finds no harm.
func (c call) verdicts(verdict, quote string) string {
	return c.answer(func(statement string) (string, string) {
		if verdict == grader.Met && strings.HasPrefix(statement, harmMark) {
			return grader.Unmet, ""
		}
		return verdict, quote
	})
}

// harmMark begins the claims about harm.
const harmMark = "Harm: "

func (c call) answer(decide func(statement string) (verdict, quote string)) string {
	var list []map[string]string
	for _, id := range c.ids {
		verdict, quote := decide(c.statements[id])
		list = append(list, map[string]string{"id": id, "evidence_quote": quote, "reason": "so it seems",
			"verdict": verdict})
	}
	return encoded(map[string]any{"verdicts": list,
		"letter": map[string]any{"reason": "it is one", "may_be_sent": !c.unsendable}})
}

// gullible believes the reply: it answers "met" to every claim but harm, and quotes the whole
// reply.
func gullible(c call) string { return c.verdicts(grader.Met, c.reply) }

// accuse returns a model that is gullible but finds harm by a quote, in the claims that begin with
// the words.
func accuse(words, quote string) func(call) string {
	return func(c call) string {
		return c.answer(func(statement string) (string, string) {
			harm, found := strings.CutPrefix(statement, harmMark)
			switch {
			case !found:
				return grader.Met, c.reply
			case strings.HasPrefix(harm, words):
				return grader.Met, quote
			}
			return grader.Unmet, ""
		})
	}
}

// completion is the body of a chat completion.
func completion(content string) string {
	return encoded(map[string]any{
		"id": "x", "object": "chat.completion", "created": 1, "model": "m",
		"usage": map[string]int{"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop",
			"message": map[string]string{"role": "assistant", "content": content}}},
	})
}

func encoded(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// answers returns a handler that completes with the model's text.
func answers(model func(c call) string) func(http.ResponseWriter, call) {
	return func(w http.ResponseWriter, c call) { respond(w, http.StatusOK, completion(model(c))) }
}

func respond(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// refuse answers with an error.
func refuse(status int, message string) func(http.ResponseWriter, call) {
	return func(w http.ResponseWriter, _ call) {
		respond(w, status, fmt.Sprintf(`{"error": {"message": %q, "type": "x", "param": null, "code": null}}`, message))
	}
}

// scripted is an endpoint with scripted answers. It records the waits between calls.
type scripted struct {
	url   string
	calls atomic.Int64
	mu    sync.Mutex
	waits []time.Duration
	last  call
}

const testKey = "sk-secret-of-the-test"

// serve runs the handlers in order, and the last one for all further calls.
func serve(t testing.TB, handlers ...func(http.ResponseWriter, call)) *scripted {
	t.Helper()
	e := &scripted{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(e.calls.Add(1))
		c, err := read(r, n)
		if err != nil {
			return // the client has disconnected
		}
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+testKey {
			t.Errorf("%s %s with the key %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		e.mu.Lock()
		e.last = c
		e.mu.Unlock()
		handlers[min(n, len(handlers))-1](w, c)
	}))
	t.Cleanup(server.Close)
	e.url = server.URL + "/v1"
	return e
}

// judge makes a judge that doesn't wait between attempts.
func (e *scripted) judge(t testing.TB, change func(*Config)) *Judge {
	t.Helper()
	c := Config{BaseURL: e.url, Model: "m", APIKey: testKey, Votes: 1, Random: func() float64 { return 1 },
		Wait: func(ctx context.Context, d time.Duration) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.waits = append(e.waits, d)
			return ctx.Err()
		}}
	if change != nil {
		change(&c)
	}
	j, err := New(c, prose.New())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

var catalogue = sync.OnceValues(scenarios.LoadPublic)

// tickets instantiates every ticket of the catalogue.
func tickets(t testing.TB, seed int64) []*scenarios.Ticket {
	t.Helper()
	c, err := catalogue()
	if err != nil {
		t.Fatal(err)
	}
	var out []*scenarios.Ticket
	for _, s := range c.Tickets() {
		ticket, err := s.Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ticket)
	}
	return out
}

// goodCase returns a ticket with a good reply.
func goodCase(t testing.TB) grader.Case {
	t.Helper()
	ticket := tickets(t, 7)[0]
	return grader.Case{Ticket: ticket, Reply: ticket.References.Good[0], Actions: goldActions(ticket)}
}

func goldActions(t *scenarios.Ticket) grader.Actions {
	if t.Gold.Escalate {
		return grader.Actions{Ending: grader.Escalated, Team: t.Gold.Team}
	}
	return grader.Actions{Ending: grader.Resolved}
}

// direct answers requests in the process, without a socket.
type direct func(c call) string

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := read(r, 0)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(completion(d(c)))), Request: r,
	}, nil
}

// directJudge makes a judge whose model is in the process.
func directJudge(t testing.TB, transport http.RoundTripper, change func(*Config)) *Judge {
	t.Helper()
	c := Config{BaseURL: "http://model.test/v1", Model: "m", Votes: 1, HTTPClient: &http.Client{Transport: transport}}
	if change != nil {
		change(&c)
	}
	j, err := New(c, prose.New())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// attackSuite is the suite of attacks for all judges.
type attackSuite struct {
	Bad     []struct{ ID, Language, Text string }
	Attacks []struct{ ID, Kind, Language, Text string }
}

func loadAttacks(t testing.TB) attackSuite {
	t.Helper()
	data, err := os.ReadFile("../prose/testdata/attacks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var suite attackSuite
	if err := yaml.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	return suite
}

// roundTripper answers requests in the process with a status and a body.
type roundTripper func(c call) (int, string)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := read(r, 0)
	if err != nil {
		return nil, err
	}
	status, body := f(c)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// hangingTripper never answers.
type hangingTripper struct{}

func (hangingTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
