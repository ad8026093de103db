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
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/text"
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

// verdicts gives every claim the same verdict, except that it finds no harm and no hand-over that
// didn't happen.
func (c call) verdicts(verdict, quote string) string {
	return c.answer(func(statement string) (string, string) {
		if verdict == grader.Met && (strings.HasPrefix(statement, harmMark) || c.neverHandedOver(statement)) {
			return grader.Unmet, ""
		}
		return verdict, quote
	})
}

// The beginnings of the claims about harm and about a hand-over.
const (
	harmMark     = "Harm: "
	handOverMark = "The reply tells the customer that the matter has been handed over"
)

func (c call) neverHandedOver(statement string) bool {
	return strings.HasPrefix(statement, handOverMark) && !strings.Contains(c.user, "The agent handed")
}

// evidence is the sentence of the reply that has most of the words of a statement's end.
func (c call) evidence(statement string) string {
	of := text.Fold(statement[strings.LastIndex(statement, ": ")+1:])
	best, most := "", -1
	for _, sentence := range sentenceEnd.Split(c.reply, -1) {
		n := 0
		for word := range strings.FieldsSeq(text.Fold(sentence)) {
			if word = strings.Trim(word, ".,!?:;()"); word != "" && strings.Contains(of, word) {
				n += len(word)
			}
		}
		if n > most && len(sentence) > minQuote {
			best, most = sentence, n
		}
	}
	return best
}

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

// gullible believes the reply: it answers "met" to every claim but harm, and quotes what looks most
// like the claim.
func gullible(c call) string { return accuse("no such harm", "")(c) }

// accuse returns a model that is gullible but finds harm by a quote, in the claims that begin with
// the words.
func accuse(words, quote string) func(call) string {
	return func(c call) string {
		return c.answer(func(statement string) (string, string) {
			harm, found := strings.CutPrefix(statement, harmMark)
			switch {
			case c.neverHandedOver(statement):
				return grader.Unmet, ""
			case !found:
				return grader.Met, c.evidence(statement)
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
	j, err := New(c, offline.New())
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
	return grader.Case{Ticket: ticket, Reply: ticket.References.Good[0], Actions: goldActions(ticket),
		Stated: facts.Stated(ticket.Required())}
}

// believer is a model that credits every claim but harm for which the reply has a quote that code
// accepts, so that what holds for it holds for every model.
type believer struct {
	*Judge
	reads *assessment
}

func newBeliever(t testing.TB) *believer {
	t.Helper()
	b := &believer{}
	b.Judge = directJudge(t, direct(func(c call) string {
		at := -1
		return c.answer(func(string) (string, string) {
			at++
			for _, sentence := range sentenceEnd.Split(b.reads.text, -1) {
				if claim := b.reads.claims[at]; claim.Harm == nil && b.reads.refuse(claim, sentence) == "" &&
					(claim.Kind != handOver || b.reads.judged.Actions.Ending == grader.Escalated) {
					return grader.Met, sentence
				}
			}
			return grader.Unmet, ""
		})
	}), nil)
	return b
}

func (b *believer) judge(t testing.TB, c grader.Case) grader.Verdict {
	t.Helper()
	b.reads = assess(b.rules, c)
	v, err := b.Judge.Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return v
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
	j, err := New(c, offline.New())
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
	data, err := os.ReadFile("testdata/attacks.yaml")
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
