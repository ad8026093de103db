package openenv

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func newTicketKind(tb testing.TB) *ticket.Kind {
	tb.Helper()
	kind, err := ticket.New(testkit.Catalog(tb), offline.New())
	if err != nil {
		tb.Fatal(err)
	}
	return kind
}

// forked returns the ids of n sessions with the episode of another one.
func forked(tb testing.TB, url, session string, n int) []string {
	tb.Helper()
	answer := wire.CallRPC(tb, url, "session/fork", fmt.Sprintf(`{"session_id":%q,"n":%d}`, session, n))
	var reply struct {
		Result struct {
			SessionIDs []string `json:"session_ids"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &reply); err != nil || len(reply.Result.SessionIDs) != n {
		tb.Fatalf("forking into %d: %s", n, answer)
	}
	return reply.Result.SessionIDs
}

// saved returns the checkpoint of a session.
func saved(tb testing.TB, url, session string) string {
	tb.Helper()
	answer := wire.CallRPC(tb, url, "session/checkpoint", fmt.Sprintf(`{"session_id":%q}`, session))
	text, ok := wire.DecodePath(tb, answer, "result", "checkpoint").(string)
	if !ok {
		tb.Fatalf("saving: %s", answer)
	}
	return text
}

// restored returns the session with the episode of a checkpoint.
func restored(tb testing.TB, url, checkpoint string) string {
	tb.Helper()
	answer := wire.CallRPC(tb, url, "session/restore", fmt.Sprintf(`{"checkpoint":%q}`, checkpoint))
	id, ok := wire.DecodePath(tb, answer, "result", "session_id").(string)
	if !ok {
		tb.Fatalf("restoring: %s", answer)
	}
	return id
}

// act plays an action of a session over HTTP.
func act(tb testing.TB, url, session, action string) string {
	tb.Helper()
	_, answer := wire.PostBody(tb, url+"/step", fmt.Sprintf(`{"session_id":%q,"action":%s}`, session, action))
	return answer
}

const (
	classifies = `{"action_type":"classify","category":"billing","priority":"high"}`
	searches   = `{"action_type":"search_knowledge_base","query":"refund charge"}`
	responds   = `{"action_type":"respond","message":"I'm sorry about this. I have checked your charge."}`
	resolves   = `{"action_type":"resolve","message":"I have refunded the duplicate charge."}`
)

// Forks and restored sessions have the same future as the original for the same actions, over every
// transport, and none affects the others.
func TestForksHaveTheSameFuture(t *testing.T) {
	_, url := serve(t, Config{Kind: newTicketKind(t)})
	_, other := serve(t, Config{Kind: newTicketKind(t)})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{"seed":3,"scenario":"B07","task":"ticket-resolve","reward_mode":"dense",` +
		`"invalid_action_penalty":0.25}}`)
	p.Ask(`{"type":"step","data":` + classifies + `}`)
	p.Ask(`{"type":"step","data":{"action_type":"juggle"}}`)
	p.Ask(`{"type":"step","data":` + responds + `}`)

	answer := p.Ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"session/fork","params":{"n":2}}}`)
	ids, ok := wire.DecodePath(t, answer, "data", "result", "session_ids").([]any)
	if !ok || len(ids) != 2 {
		t.Fatalf("forked over the socket: %s", answer)
	}
	first, second := ids[0].(string), ids[1].(string)
	elsewhere := restored(t, other, saved(t, url, second))

	state := func(url, session string) string {
		_, answer := wire.GetBody(t, url+"/state?session_id="+session)
		return answer
	}
	if got, want := state(other, elsewhere), state(url, first); got != want || !strings.Contains(got, `"step_count":3`) {
		t.Errorf("the restored session has the state %s, the fork %s", got, want)
	}
	want := make([]string, 0, 4)
	for _, action := range []string{`{"action_type":"juggle"}`, searches, responds, resolves} {
		want = append(want, act(t, url, first, action))
	}
	if !strings.Contains(want[3], `"done":true`) || !strings.Contains(want[3], `"forked":true`) {
		t.Errorf("the last answer is %s", want[3])
	}
	attached := attachTo(t, url, second)
	for i, action := range []string{`{"action_type":"juggle"}`, searches, responds, resolves} {
		for who, got := range map[string]string{
			"the original":       dataOf(t, p.Ask(`{"type":"step","data":`+action+`}`)),
			"an attached fork":   dataOf(t, attached.Ask(`{"type":"step","data":`+action+`}`)),
			"a restored session": act(t, other, elsewhere, action),
		} {
			if got != want[i] {
				t.Errorf("%s answers %s\nthe fork answered %s", who, got, want[i])
			}
		}
	}
}

// dataOf returns the data of a message as HTTP returns it.
func dataOf(tb testing.TB, answer string) string {
	tb.Helper()
	var message struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(answer), &message); err != nil {
		tb.Fatal(err)
	}
	return string(message.Data)
}

// A fork ends with the first socket that attaches to it.
func TestForkBelongsToItsSocket(t *testing.T) {
	s, url := serve(t, Config{})
	id := wire.CreateSession(t, url)
	wire.PostBody(t, url+"/reset", fmt.Sprintf(`{"session_id":%q}`, id))
	fork := forked(t, url, id, 1)[0]
	attached := attachTo(t, url, fork)
	attached.Ask(`{"type":"state"}`)
	attached.Send(`{"type":"close"}`)
	attached.Closed()
	if s.sessions.findSession(fork) != nil || s.sessions.findSession(id) == nil {
		t.Errorf("%d sessions are left, want the original alone", s.sessions.countActive())
	}
}

// A fork is all or nothing: it leaves no session if one gets no slot.
func TestForkIsAllOrNothing(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 4})
	id := wire.CreateSession(t, url)
	wire.PostBody(t, url+"/reset", fmt.Sprintf(`{"session_id":%q}`, id))
	answer := wire.CallRPC(t, url, "session/fork", fmt.Sprintf(`{"session_id":%q,"n":4}`, id))
	if !strings.Contains(answer, `"max_sessions":4`) || s.sessions.countActive() != 1 {
		t.Errorf("%d sessions after %s", s.sessions.countActive(), answer)
	}
	forked(t, url, id, 3)
	if s.sessions.countActive() != 4 {
		t.Errorf("%d sessions, want 4", s.sessions.countActive())
	}
}

func TestRefusedForks(t *testing.T) {
	_, url := serve(t, Config{})
	_, runsOnly := serve(t, Config{RunsOnly: true, SharedKey: true})
	fresh, playing, planned, ended := wire.CreateSession(t, url), wire.CreateSession(t, url), wire.CreateSession(t, url),
		wire.CreateSession(t, url)
	for id, options := range map[string]string{playing: "", ended: "", planned: `,"run":"u","shard":0,"episode":0`} {
		wire.PostBody(t, url+"/reset", fmt.Sprintf(`{"session_id":%q%s}`, id, options))
	}
	act(t, url, ended, `{"kind":"finish"}`)
	checkpoint := saved(t, url, playing)
	changed, err := base64.RawURLEncoding.DecodeString(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	changed[len(changed)/2] ^= 1
	_, foreign := serve(t, Config{LedgerKey: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))})
	_, tickets := serve(t, Config{Kind: newTicketKind(t)})
	for _, tc := range []struct{ name, url, method, params, want string }{
		{"a session without episode", url, "fork", `{"session_id":"` + fresh + `"}`, "send reset first"},
		{"an ended episode", url, "fork", `{"session_id":"` + ended + `"}`, "send reset first"},
		{"a planned run", url, "fork", `{"session_id":"` + planned + `"}`, "allows one attempt"},
		{"a checkpoint of a planned run", url, "checkpoint", `{"session_id":"` + planned + `"}`, "allows one attempt"},
		{"no session", url, "fork", `{}`, "session_id is required"},
		{"an unknown session", url, "checkpoint", `{"session_id":"none"}`, "unknown session_id"},
		{"none", url, "fork", `{"session_id":"` + playing + `","n":0}`, "from 1 to 256"},
		{"too many", url, "fork", `{"session_id":"` + playing + `","n":257}`, "from 1 to 256"},
		{"a fraction", url, "fork", `{"session_id":"` + playing + `","n":1.5}`, "from 1 to 256"},
		{"no checkpoint", url, "restore", `{}`, "params.checkpoint"},
		{"no base64", url, "restore", `{"checkpoint":"?"}`, "unchanged"},
		{"a changed checkpoint", url, "restore", `{"checkpoint":"` + base64.RawURLEncoding.EncodeToString(changed) + `"}`,
			"was changed"},
		{"another pool", foreign, "restore", `{"checkpoint":"` + checkpoint + `"}`, "another pool"},
		{"another environment", tickets, "restore", `{"checkpoint":"` + checkpoint + `"}`, "has the environment"},
		{"a pool for runs", runsOnly, "restore", `{"checkpoint":"` + checkpoint + `"}`, "access.play"},
	} {
		answer := wire.CallRPC(t, tc.url, "session/"+tc.method, tc.params)
		if !strings.Contains(answer, tc.want) || !strings.Contains(answer, fmt.Sprint(protocol.RPCInvalidParams)) {
			t.Errorf("%s: %s, want -32602 with %q", tc.name, answer, tc.want)
		}
	}
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset"}`)
	answer := p.Ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"session/restore","params":{"checkpoint":"` +
		checkpoint + `"}}}`)
	if !strings.Contains(answer, "an episode is being played") {
		t.Errorf("a socket that plays: %s", answer)
	}
}

// The episodes of a fork, of its original and of a restored session are counted apart in the run
// that trainers name, and in no score.
func TestForksOfTrainersAreCountedApart(t *testing.T) {
	s, url := serve(t, Config{Pod: "support-a"})
	original, untouched := wire.CreateSession(t, url), wire.CreateSession(t, url)
	for _, id := range []string{original, untouched} {
		wire.PostBody(t, url+"/reset", fmt.Sprintf(`{"session_id":%q,"run":"grpo-7","seed":7}`, id))
	}
	fork := forked(t, url, original, 1)[0]
	again := restored(t, url, saved(t, url, fork))
	for i, id := range []string{original, untouched, fork, again} {
		answer := act(t, url, id, `{"kind":"finish","score":500000}`)
		if marked := strings.Contains(answer, `"forked":true`); marked != (id != untouched) {
			t.Errorf("episode %d: %s", i, answer)
		}
	}
	segment, _ := askRollouts(t, s, question(0, ""))
	if l := opened(t, segment); l.Scored != 1 || segment.Forked != 3 {
		t.Errorf("%d scored, %d forked, want 1 and 3", l.Scored, segment.Forked)
	}
	if got := s.rollouts.Figures(); got.Forked != 3 || got.Counted != 1 {
		t.Errorf("figures %+v", got)
	}
}
