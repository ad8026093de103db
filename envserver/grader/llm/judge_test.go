package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
)

func TestJudgesAGoodReply(t *testing.T) {
	e := serve(t, answers(gullible))
	j := e.judge(t, nil)
	c := goodCase(t)
	v, err := j.Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if v.PostGate != 500 || v.Status != grader.StatusOK || v.Judge != "llm:m@"+RubricVersion || j.Name() != v.Judge {
		t.Errorf("%+v", v)
	}
	if diff := cmp.Diff(grader.Usage{Calls: 1, PromptTokens: 1000, CompletionTokens: 100}, v.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	again, err := j.Judge(t.Context(), c)
	if err != nil || again.Status != grader.StatusCached || e.calls.Load() != 1 {
		t.Errorf("again: %v, %s after %d calls", err, again.Status, e.calls.Load())
	}
	if diff := cmp.Diff(grader.Usage{CacheHits: 1}, again.Usage); diff != "" {
		t.Errorf("usage of a cached verdict (-want +got):\n%s", diff)
	}
	again.Status, again.Usage = v.Status, v.Usage
	if diff := cmp.Diff(v, again); diff != "" {
		t.Errorf("the cached verdict (-first +again):\n%s", diff)
	}
}

// What the model denies earns nothing, whatever the rules find: of the best reply the form remains,
// and next to nothing under the gate on replies without facts.
func TestAnswersDecide(t *testing.T) {
	e := serve(t, answers(func(c call) string { return c.verdicts(grader.Unmet, "") }))
	v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Criteria {
		want := int64(0)
		if c.ID == "form" || c.ID == handOver {
			want = c.Offered
		}
		if c.Earned != want {
			t.Errorf("%s earned %d of %d", c.ID, c.Earned, c.Offered)
		}
	}
	if v.PostGate != 20 || v.Gates[0].ID != "no-facts" {
		t.Errorf("%d points by %v", v.PostGate, v.Gates)
	}
}

// A reply that the model says is no letter that may be sent earns next to nothing, if further votes
// agree.
func TestLetterThatMayNotBeSent(t *testing.T) {
	unsendable := func(c call) string { c.unsendable = true; return gullible(c) }
	for name, tc := range map[string]struct {
		votes []func(call) string
		want  int64
	}{
		"agreed": {[]func(call) string{unsendable}, 20},
		"denied": {[]func(call) string{unsendable, gullible, gullible}, 500},
	} {
		var handlers []func(http.ResponseWriter, call)
		for _, v := range tc.votes {
			handlers = append(handlers, answers(v))
		}
		e := serve(t, handlers...)
		v, err := e.judge(t, func(c *Config) { c.Votes = 3 }).Judge(t.Context(), questionCase())
		if err != nil || v.PostGate != tc.want || v.Usage.Calls != 3 ||
			tc.want == 20 && (v.Gates[0].ID != "no-letter" || !strings.HasSuffix(v.Gates[0].Reason, "judge: it is one")) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		kept := v
		again, err := replay(offline.New(), kept, questionCase()).Judge(t.Context(), questionCase())
		if err != nil || again.PostGate != v.PostGate {
			t.Errorf("%s, replayed: %+v, %v", name, again, err)
		}
	}
}

// Replies without words aren't sent to the model.
func TestEmptyRepliesAreNotSent(t *testing.T) {
	e := serve(t, answers(gullible))
	j := e.judge(t, nil)
	c := goodCase(t)
	c.Reply = " \u200b "
	if v, err := j.Judge(t.Context(), c); err != nil || v.PostGate != 0 || v.Status != grader.StatusOK {
		t.Errorf("%+v, %v", v, err)
	}
	if n := e.calls.Load(); n != 0 {
		t.Errorf("%d calls", n)
	}
	if _, err := j.Judge(t.Context(), grader.Case{}); err == nil {
		t.Error("a case without a ticket was judged")
	}
}

// hang starts an answer and doesn't finish it.
func hang(w http.ResponseWriter, _ call) {
	if f, ok := w.(http.Flusher); ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		f.Flush()
	}
	<-time.After(400 * time.Millisecond)
}

// cutOff resets the connection in the middle of the body.
func cutOff(w http.ResponseWriter, c call) {
	body := completion(gullible(c))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write([]byte(body[:len(body)/2]))
	panic(http.ErrAbortHandler)
}

func throttle(after string) func(http.ResponseWriter, call) {
	return func(w http.ResponseWriter, c call) {
		w.Header().Set("Retry-After", after)
		refuse(http.StatusTooManyRequests, "slow down")(w, c)
	}
}

func says(content string) func(http.ResponseWriter, call) {
	return answers(func(call) string { return content })
}

// outage is the number of requests in an outage that lasts longer than the timeout: nine rounds of
// four requests about the reply, and four about a harmless one.
const outage = 9 * 2 * 4

// Each failure has a cause and no score. A question about a harmless reply decides that the reply
// didn't cause the failure. What may pass is waited for, and what is refused is repeated.
func TestFailuresAreNoScores(t *testing.T) {
	type handler = func(http.ResponseWriter, call)
	without := func(c call) string { c.ids = c.ids[1:]; return gullible(c) }
	extra := func(c call) string { c.ids = append(c.ids, "c99"); return gullible(c) }
	twice := func(c call) string { c.ids = append(c.ids, c.ids[0]); return gullible(c) }
	tests := map[string]struct {
		handlers []handler
		cause    grader.Cause
		calls    int64
		waits    []time.Duration
	}{
		"429": {[]handler{throttle("3")}, grader.CauseUnavailable, outage,
			[]time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}},
		"429 for too long": {[]handler{throttle("3600")}, grader.CauseUnavailable, 2, nil},
		"500": {[]handler{refuse(500, "oh")}, grader.CauseUnavailable, outage,
			[]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}},
		"502 in HTML": {[]handler{func(w http.ResponseWriter, _ call) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>bad gateway"))
		}}, grader.CauseUnavailable, outage, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}},
		"408":               {[]handler{refuse(408, "late")}, grader.CauseUnavailable, outage, nil},
		"409":               {[]handler{refuse(409, "busy")}, grader.CauseUnavailable, outage, nil},
		"425":               {[]handler{refuse(425, "early")}, grader.CauseUnavailable, outage, nil},
		"401":               {[]handler{refuse(401, "who?")}, grader.CauseFailed, 4, nil},
		"403":               {[]handler{refuse(403, "no")}, grader.CauseFailed, 4, nil},
		"402":               {[]handler{refuse(402, "pay")}, grader.CauseFailed, 4, nil},
		"404":               {[]handler{refuse(404, "no such model")}, grader.CauseFailed, 4, nil},
		"400":               {[]handler{refuse(400, "the prompt is too long")}, grader.CauseFailed, 8, nil},
		"reset in the body": {[]handler{cutOff}, grader.CauseUnavailable, outage, nil},
		"no JSON": {[]handler{says("The reply is excellent: 10/10, all criteria met.")},
			grader.CauseUnparsable, 6, nil},
		"a bare number": {[]handler{says("0.5")}, grader.CauseUnparsable, 6, nil},
		"nothing":       {[]handler{says("")}, grader.CauseUnparsable, 6, nil},
		"half an object": {[]handler{answers(func(c call) string { s := gullible(c); return s[:len(s)-5] })},
			grader.CauseUnparsable, 6, nil},
		"two objects": {[]handler{answers(func(c call) string { return gullible(c) + gullible(c) })},
			grader.CauseUnparsable, 6, nil},
		"another member": {
			[]handler{answers(func(c call) string {
				return strings.Replace(gullible(c), `"verdicts"`,
					`"score":500,"verdicts"`, 1)
			})}, grader.CauseUnparsable, 6, nil},
		"an unknown verdict": {[]handler{answers(func(c call) string { return c.verdicts("MET", c.reply) })},
			grader.CauseUnparsable, 6, nil},
		"a missing id":    {[]handler{answers(without)}, grader.CauseUnparsable, 6, nil},
		"an extra id":     {[]handler{answers(extra)}, grader.CauseUnparsable, 6, nil},
		"an id twice":     {[]handler{answers(twice)}, grader.CauseUnparsable, 6, nil},
		"a huge answer":   {[]handler{says(strings.Repeat("x", maxContent+1))}, grader.CauseUnparsable, 6, nil},
		"a huge response": {[]handler{says(strings.Repeat("x", 2<<20))}, grader.CauseUnparsable, 8, nil},
		"no choices": {[]handler{func(w http.ResponseWriter, _ call) { respond(w, 200, `{"choices": []}`) }},
			grader.CauseUnavailable, outage, nil},
		"a broken response": {[]handler{func(w http.ResponseWriter, _ call) { respond(w, 200, `{"choices": [`) }},
			grader.CauseUnavailable, outage, nil},
		"a page": {[]handler{func(w http.ResponseWriter, _ call) {
			_,
				_ = w.Write([]byte("<html>welcome"))
		}}, grader.CauseUnavailable, outage, nil},
		"a cut answer": {[]handler{func(w http.ResponseWriter, c call) {
			respond(w, 200, strings.Replace(completion(gullible(c)), `"stop"`, `"length"`, 1))
		}}, grader.CauseUnparsable, 6, nil},
		"the canary": {[]handler{answers(func(c call) string {
			return strings.ReplaceAll(gullible(c), "so it seems", c.system[len(c.system)-16:])
		})}, grader.CauseFailed, 6, nil},
		"cannot judge": {[]handler{answers(func(c call) string { return c.verdicts(cannotJudge, "") })},
			grader.CauseFailed, 4, nil},
		"a filter": {[]handler{refuse(400, "The response was filtered due to Azure's content management policy")},
			grader.CauseFailed, 8, nil},
		"a filtered answer": {[]handler{func(w http.ResponseWriter, _ call) {
			respond(w, 200, strings.Replace(completion(""), `"stop"`, `"content_filter"`, 1))
		}}, grader.CauseFailed, 8, nil},
		"late": {[]handler{hang}, grader.CauseTimeout, 2, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := serve(t, tc.handlers...)
			j := e.judge(t, func(c *Config) {
				if name == "late" {
					c.Timeout = 300 * time.Millisecond
				}
			})
			v, err := j.Judge(t.Context(), goodCase(t))
			if err == nil || v.Scored() || v.Status != grader.StatusError || v.Cause != tc.cause || v.PostGate != 0 ||
				len(v.Criteria) != 0 {
				t.Fatalf("%+v, %v, want cause %s", v, err, tc.cause)
			}
			if got := e.calls.Load(); got != tc.calls || v.Usage.Calls != got {
				t.Errorf("%d calls, %d in the usage, want %d", got, v.Usage.Calls, tc.calls)
			}
			if n := len(tc.waits); n > len(e.waits) || n > 0 && cmp.Diff(tc.waits, e.waits[:n]) != "" {
				t.Errorf("waits %v, want first %v", e.waits, tc.waits)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, err), testKey) {
				t.Errorf("the error contains the key: %v", err)
			}
		})
	}
}

// misled answers questions about a harmless reply well, and others so.
func misled(others func(http.ResponseWriter, call)) func(http.ResponseWriter, call) {
	return func(w http.ResponseWriter, c call) {
		if c.reply == harmless {
			answers(gullible)(w, c)
			return
		}
		others(w, c)
	}
}

// A reply that is shown twice to make judging fail alone is graded by its facts: bad replies can't
// be left out. While everything fails, it is no score. A failure that takes all the time of a
// judgement is shown in two.
func TestProvokedFailuresAreGraded(t *testing.T) {
	const short = 300 * time.Millisecond
	for name, tc := range map[string]struct {
		handler func(http.ResponseWriter, call)
		cause   grader.Cause
		timeout time.Duration
	}{
		"a filter": {refuse(400, "The response was filtered due to Azure's content management policy"),
			grader.CauseFailed, 0},
		"a long prompt":  {refuse(400, "the prompt is too long"), grader.CauseFailed, 0},
		"another answer": {says("I am a poet."), grader.CauseUnparsable, 0},
		"the canary":     {answers(func(c call) string { return c.system[len(c.system)-16:] }), grader.CauseFailed, 0},
		"no decision": {answers(func(c call) string { return c.verdicts(cannotJudge, "") }),
			grader.CauseFailed, 0},
		"500":               {refuse(500, "oh"), grader.CauseUnavailable, 0},
		"503":               {refuse(503, "full"), grader.CauseUnavailable, 0},
		"408":               {refuse(408, "late"), grader.CauseUnavailable, 0},
		"a lost connection": {cutOff, grader.CauseUnavailable, 0},
		"no connection": {func(http.ResponseWriter, call) { panic(http.ErrAbortHandler) },
			grader.CauseUnavailable, 0},
		"a page": {func(w http.ResponseWriter, _ call) { _, _ = w.Write([]byte("<html>blocked")) },
			grader.CauseUnavailable, 0},
		"late": {hang, grader.CauseTimeout, short},
	} {
		t.Run(name, func(t *testing.T) {
			timed := func(c *Config) { c.Timeout = tc.timeout }
			j := serve(t, misled(tc.handler)).judge(t, timed)
			v, err := j.Judge(t.Context(), goodCase(t))
			if name == "late" {
				if err == nil || v.Scored() || v.Cause != tc.cause {
					t.Errorf("the first judgement: %+v, %v", v, err)
				}
				v, err = j.Judge(t.Context(), goodCase(t))
			}
			if err != nil || !v.Scored() || !v.Unread() || v.Status != grader.StatusFallback || v.Judge != j.Name() ||
				v.Cause != tc.cause || v.PostGate != unreadCap {
				t.Errorf("the reply alone: %+v, %v", v, err)
			}
			if replayed, err := replay(offline.New(), v, goodCase(t)).Judge(t.Context(), goodCase(t)); err != nil ||
				replayed.PostGate != v.PostGate || replayed.Cause != v.Cause {
				t.Errorf("replayed: %+v, %v", replayed, err)
			}
			j = serve(t, tc.handler).judge(t, timed)
			if v, err := j.Judge(t.Context(), goodCase(t)); err == nil || v.Scored() || v.Cause != tc.cause {
				t.Errorf("an outage: %+v, %v", v, err)
			}
		})
	}
}

// What no reply can cause is no proof against it, however often a harmless reply is judged.
func TestNoReplyCausesARefusal(t *testing.T) {
	for name, handler := range map[string]func(http.ResponseWriter, call){
		"401": refuse(401, "who?"), "402": refuse(402, "pay"), "403": refuse(403, "blocked by a content filter"),
		"404": refuse(404, "no such model"), "429": throttle("1"), "429 for too long": throttle("3600"),
		"a code in 200": func(w http.ResponseWriter, _ call) {
			respond(w, 200, `{"error": {"code": 402, "message": "no credits"}}`)
		},
	} {
		j := serve(t, misled(handler)).judge(t, nil)
		for range 3 {
			if v, err := j.Judge(t.Context(), goodCase(t)); err == nil || v.Scored() {
				t.Errorf("%s: %+v, %v", name, v, err)
			}
		}
	}
}

// One failure is no proof, nor are two of different kinds, nor two with a harmless reply that fails
// in between.
func TestOneFailureIsNoProof(t *testing.T) {
	filter, poem := refuse(400, "content_filter"), says("I am a poet.")
	for name, replies := range map[string][]func(http.ResponseWriter, call){
		"one":       {filter, filter, filter, filter, answers(gullible)},
		"two kinds": {filter, filter, filter, filter, poem, poem, poem, answers(gullible)},
	} {
		var next atomic.Int64
		e := serve(t, misled(func(w http.ResponseWriter, c call) {
			replies[min(int(next.Add(1)), len(replies))-1](w, c)
		}))
		if v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t)); err != nil || v.PostGate != 500 || v.Unread() {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	down := refuse(503, "down")
	e := serve(t, misled(filter), misled(filter), misled(filter), misled(filter), answers(gullible), // a first proof
		down, down, down, down, down, down, down, down, // an outage
		filter, filter, filter, filter, answers(gullible), // a first proof again
		answers(gullible))
	if v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t)); err != nil || v.PostGate != 500 || v.Unread() {
		t.Errorf("with an outage in between: %+v, %v", v, err)
	}
}

// An outage that ends before the reply is judged again costs it nothing.
func TestOutageThatEnds(t *testing.T) {
	down := refuse(503, "down")
	e := serve(t, down, down, down, down, answers(gullible))
	v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t))
	if err != nil || v.Status != grader.StatusOK || v.PostGate != 500 || v.Usage.Calls != 6 || e.calls.Load() != 6 {
		t.Errorf("%+v, %v", v, err)
	}
}

// The tokens of failed calls are counted, because they were paid for.
func TestUsageOfUnparsableAnswers(t *testing.T) {
	e := serve(t, says("met"), says("met"), answers(gullible))
	v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(grader.Usage{Calls: 3, PromptTokens: 3000, CompletionTokens: 300, Retries: 2},
		v.Usage); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(e.last.user, "Your last answer could not be used: it is not one JSON object") ||
		strings.Count(e.last.user, e.last.reply[:20]) > 1 {
		t.Errorf("the last prompt:\n%s", e.last.user)
	}
}

func TestRecovers(t *testing.T) {
	for name, bad := range map[string]func(http.ResponseWriter, call){"429": throttle("1"), "500": refuse(500, "oh"),
		"reset": cutOff} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, bad, bad, answers(gullible))
			v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t))
			if err != nil || v.PostGate != 500 || v.Usage.Retries != 2 || v.Usage.Calls != 3 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// After an endpoint has refused a parameter, requests omit it.
func TestEndpointsThatRefuseParameters(t *testing.T) {
	limited := func(w http.ResponseWriter, c call) {
		for _, name := range []string{"response_format", "seed", "temperature", "top_p", "max_tokens"} {
			if _, sent := c.body[name]; sent {
				refuse(400, "unsupported parameter: "+name)(w, c)
				return
			}
		}
		respond(w, 200, completion("Here you are:\n```json\n"+gullible(c)+"\n```\n"))
	}
	e := serve(t, limited)
	j := e.judge(t, nil)
	c := goodCase(t)
	v, err := j.Judge(t.Context(), c)
	if err != nil || v.PostGate != 500 || v.Usage.Calls != 11 {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, sent := e.last.body["max_completion_tokens"]; !sent || !strings.Contains(e.last.user, "```json") {
		t.Errorf("the last request: %v", e.last.body)
	}
	c.Reply += " Thank you again."
	if v, err := j.Judge(t.Context(), c); err != nil || v.Usage.Calls != 1 {
		t.Errorf("the second reply: %+v, %v", v, err)
	}
}

// Requests end if an endpoint refuses every parameter.
func TestEndpointThatRefusesAll(t *testing.T) {
	e := serve(t, refuse(400, "response_format, seed, temperature, top_p and max_tokens are unknown"))
	if v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t)); err == nil ||
		v.Cause != grader.CauseFailed || v.Usage.Calls > 18 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestFallbackIsOptional(t *testing.T) {
	e := serve(t, refuse(401, "who?"))
	j := e.judge(t, func(c *Config) { c.OnFailure = FailureIsOffline })
	c := goodCase(t)
	v, err := j.Judge(t.Context(), c)
	if err != nil || v.Status != grader.StatusFallback || v.Judge != offline.Name ||
		v.Cause != grader.CauseFailed || v.Usage.Calls != 4 || v.PostGate != 500 {
		t.Errorf("%+v, %v", v, err)
	}
	if want := "llm:m@" + RubricVersion + "+" + offline.Name; j.Name() != want {
		t.Errorf("scale %q, want %q", j.Name(), want)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	c.Reply += " Bye."
	if v, err := j.Judge(gone, c); !errors.Is(err, context.Canceled) || v.Scored() {
		t.Errorf("a cancelled caller got %+v, %v", v, err)
	}
}

func TestValidate(t *testing.T) {
	good := Config{BaseURL: "https://api.example.com/v1", Model: "m-2026-01-01"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"base URL":    func(c *Config) { c.BaseURL = "" },
		"scheme":      func(c *Config) { c.BaseURL = "ftp://x/v1" },
		"a password":  func(c *Config) { c.BaseURL = "https://me:secret@x/v1" },
		"a query":     func(c *Config) { c.BaseURL = "https://x/v1?key=secret" },
		"a fragment":  func(c *Config) { c.BaseURL = "https://x/v1#chat" },
		"no model":    func(c *Config) { c.Model = "" },
		"long model":  func(c *Config) { c.Model = strings.Repeat("m", 200) },
		"odd model":   func(c *Config) { c.Model = "a b" },
		"even votes":  func(c *Config) { c.Votes = 2 },
		"many votes":  func(c *Config) { c.Votes = 11 },
		"timeout":     func(c *Config) { c.Timeout = -1 },
		"on failure":  func(c *Config) { c.OnFailure = "zero" },
		"cache modes": func(c *Config) { c.CacheMode = "warm" },
	} {
		c := good
		change(&c)
		err := c.Validate()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error contains the password: %v", name, err)
		}
		if _, err := New(c, offline.New()); err == nil {
			t.Errorf("%s: a judge was made", name)
		}
	}
}

// three answers each vote separately: the votes have different seeds.
func TestVotes(t *testing.T) {
	met := gullible
	// unmet credits the fact and the time alone.
	unmet := func(c call) string {
		return c.answer(func(statement string) (string, string) {
			if strings.HasPrefix(statement, "A sentence") || strings.HasPrefix(statement, "The reply says by when") {
				return grader.Met, c.evidence(statement)
			}
			return grader.Unmet, ""
		})
	}
	open := func(c call) string { return c.verdicts(cannotJudge, "") }
	made := func(c call) string { return c.verdicts(grader.Met, "words that nobody wrote") }
	type votes = []func(call) string
	tests := map[string]struct {
		votes  votes
		change func(*Config)
		calls  int64
		want   int64
		cause  grader.Cause
	}{
		"clear":                     {votes{met}, nil, 1, 500, ""},
		"open, then met":            {votes{open, met, met}, nil, 3, 500, ""},
		"open, then unmet":          {votes{open, unmet, unmet}, nil, 3, 290, ""},
		"open and open":             {votes{open, met, open}, nil, 6, 0, grader.CauseFailed},
		"no majority, asked again":  {votes{open, met, unmet}, nil, 5, 290, ""},
		"near the pass line":        {votes{unmet, met, met}, nil, 3, 500, ""},
		"near and confirmed":        {votes{unmet, unmet, met}, nil, 3, 290, ""},
		"made-up evidence is unmet": {votes{unmet, made, met}, nil, 3, 290, ""},
		"far from the pass line":    {votes{unmet, met, met}, func(c *Config) { c.PassLine = 450 }, 1, 290, ""},
		"in the sample":             {votes{met, unmet, unmet}, func(c *Config) { c.Sample = 1000 }, 3, 290, ""},
		"one vote only":             {votes{unmet, met, met}, func(c *Config) { c.Votes = 1 }, 1, 290, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var handlers []func(http.ResponseWriter, call)
			for _, v := range tc.votes {
				handlers = append(handlers, answers(v))
			}
			e := serve(t, handlers...)
			j := e.judge(t, func(c *Config) {
				c.Votes = 3
				if tc.change != nil {
					tc.change(c)
				}
			})
			v, err := j.Judge(t.Context(), questionCase())
			if v.PostGate != tc.want || v.Cause != tc.cause || (err != nil) != (tc.want == 0) ||
				e.calls.Load() != tc.calls || v.Usage.Calls != tc.calls {
				t.Errorf("%d calls, %+v, %v, want %d points in %d calls", e.calls.Load(), v, err, tc.want, tc.calls)
			}
		})
	}
}

// questionCase returns a reply that earns 290 if the model credits its fact and time alone.
func questionCase() grader.Case {
	t := &scenarios.Ticket{
		Served: scenarios.Served{ScenarioID: "X01", Version: 1, Language: "en", Tone: "neutral",
			Now: time.Date(2026, 3, 10, 9, 30, 0, 0, time.UTC), Subject: "Invoice",
			Customer: scenarios.Customer{Name: "Maria Okafor", Company: "Brightwater Ltd", AccountLevel: "premium",
				Since: time.Date(2023, 5, 2, 0, 0, 0, 0, time.UTC)},
			Articles:    []scenarios.Article{{ID: "POL-INV", Title: "Invoices", Body: "Every seat costs $57.00 a month."}},
			Description: "My invoice bills 38 seats. By how much were we overcharged?"},
		Reply: scenarios.ReplySpec{
			Facts:     []scenarios.Fact{{ID: "f1", Slot: "overcharge", What: "amount_in_question", Stated: "$1,482.00"}},
			NextSteps: []string{"explained"},
			Questions: []scenarios.Question{{ID: "q1", Text: "How much?", AnsweredBy: []string{"f1"}}},
			Points:    scenarios.Points{Q1: 160, Q2: 100, Q3: 60, Q4: 40, Q5: 40, Q6: 40, Q7: 30, Q8: 30},
			MinWords:  5, MaxWords: 180,
		},
	}
	return grader.Case{Ticket: t, Actions: grader.Actions{Ending: grader.Resolved},
		Reply: "Hello Maria, thank you for your message about the invoice and its seats. The difference is $1,482.00."}
}

// The names and labels of the judge's metrics don't depend on the agents.
func TestMetrics(t *testing.T) {
	e := serve(t, throttle("0"), says("met"), answers(gullible))
	j := e.judge(t, nil)
	c := goodCase(t)
	for range 2 {
		if _, err := j.Judge(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	err := testutil.CollectAndCompare(j, strings.NewReader(`
# HELP csenv_judge_cache_total Answers looked up in the judge's cache, by result.
# TYPE csenv_judge_cache_total counter
csenv_judge_cache_total{result="hit"} 1
csenv_judge_cache_total{result="miss"} 1
# HELP csenv_judge_calls_total Requests to the judge's endpoint by result.
# TYPE csenv_judge_calls_total counter
csenv_judge_calls_total{result="completed"} 2
csenv_judge_calls_total{result="throttled"} 1
# HELP csenv_judge_retries_total Requests that were sent again, by the reason.
# TYPE csenv_judge_retries_total counter
csenv_judge_retries_total{reason="answer"} 1
csenv_judge_retries_total{reason="throttled"} 1
# HELP csenv_judge_tokens_total Tokens that the endpoint reported, of answers of no use too, by kind.
# TYPE csenv_judge_tokens_total counter
csenv_judge_tokens_total{kind="completion"} 200
csenv_judge_tokens_total{kind="prompt"} 2000
# HELP csenv_judge_verdicts_total Judgements by status: ok, ok_cached, fallback_offline, error.
# TYPE csenv_judge_verdicts_total counter
csenv_judge_verdicts_total{status="ok"} 1
csenv_judge_verdicts_total{status="ok_cached"} 1
# HELP csenv_judge_concurrency_limit Requests that may run at a time: it falls when the endpoint says that there are too many.
# TYPE csenv_judge_concurrency_limit gauge
csenv_judge_concurrency_limit 2
`), "csenv_judge_cache_total", "csenv_judge_calls_total", "csenv_judge_retries_total", "csenv_judge_tokens_total",
		"csenv_judge_verdicts_total", "csenv_judge_concurrency_limit")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(j); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// The machine's variables for OpenAI's client don't affect the judge.
func TestForeignVariablesAreIgnored(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "sk-of-somebody-else", "OPENAI_BASE_URL": "http://127.0.0.1:1/",
		"OPENAI_CUSTOM_HEADERS": "Authorization: Bearer x", "OPENAI_ORG_ID": "org",
	} {
		t.Setenv(name, value)
	}
	e := serve(t, answers(gullible))
	if v, err := e.judge(t, nil).Judge(t.Context(), goodCase(t)); err != nil || v.PostGate != 500 {
		t.Errorf("%+v, %v", v, err)
	}
}
