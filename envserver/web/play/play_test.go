package play_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/envserver/web/play"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
)

// kindOf makes the environment "ticket" or "workflow".
func kindOf(t *testing.T, name string) (kind episode.Kind) {
	t.Helper()
	catalog, err := scenarios.LoadFolders("")
	if err == nil && name == "workflow" {
		kind, err = workflow.New(catalog, offline.New())
	} else if err == nil {
		kind, err = ticket.New(catalog, offline.New())
	}
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// serve serves an environment, and returns its URL.
func serve(t *testing.T, cfg openenv.Config) string {
	t.Helper()
	cfg.LedgerKey, cfg.Logger = echo.LedgerKey(), slog.New(slog.DiscardHandler)
	s, err := openenv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return h.URL
}

// playground serves a playground at /play for one server.
func playground(t *testing.T, server string, change func(*play.Config)) string {
	t.Helper()
	cfg := play.Config{Path: "/play", Log: slog.New(slog.DiscardHandler),
		Layout: func(_ *http.Request, title string, main any) page.Page { return page.Page{Title: title, Main: main} },
		Targets: func(*http.Request) ([]play.Target, error) {
			return []play.Target{{ID: "it", Name: "the server", Open: func(*http.Request, string) (play.Server, error) {
				return play.Server{URL: server}, nil
			}}}, nil
		}}
	if change != nil {
		change(&cfg)
	}
	p, err := play.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(page.ProtectHandler(p))
	t.Cleanup(func() {
		p.Close()
		h.Close()
	})
	return h.URL
}

// send sends a request and returns the page after redirects, its status and its URL.
func send(t *testing.T, method, address string, form url.Values, header http.Header) (status int, at, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header.Clone()
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Request.URL.String(), string(text)
}

// values makes a form of names and values.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

func begin(t *testing.T, base string, form url.Values) (game, body string) {
	t.Helper()
	form.Set("target", "it")
	status, game, body := send(t, http.MethodPost, base+"/play/start", form, nil)
	if status != http.StatusOK || !strings.Contains(game, "/play/games/") {
		t.Fatalf("the game doesn't begin: %d %s\n%s", status, game, body)
	}
	return game, body
}

// review replays ended games, as the target of this machine does.
func review(t *testing.T, environment string) func(context.Context, record.Episode) (transcript.Transcript, error) {
	t.Helper()
	catalog, err := scenarios.LoadFolders("")
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, e record.Episode) (transcript.Transcript, error) {
		e.Environment = environment
		return transcript.ReplayEpisode(ctx, catalog, e)
	}
}

// The forms of an episode give the score of the same actions over the client.
func TestEpisodes(t *testing.T) {
	const reply = "Dear customer,\nI am sorry. We refund it within 5 business days.\nBest regards"
	tests := map[string]struct {
		environment string
		options     map[string]any
		actions     []map[string]any
	}{
		"ticket": {"ticket", map[string]any{"task": "ticket-resolve", "scenario": "B07", "seed": 3, "reward_mode": "dense"},
			[]map[string]any{
				{"action_type": "search_knowledge_base", "query": "seats <b>invoice</b>"},
				{"action_type": "classify", "category": "billing", "priority": "medium"},
				{"action_type": "resolve", "message": reply},
			}},
		"queue": {"ticket", map[string]any{"task": "queue-management", "seed": 3}, []map[string]any{
			{"action_type": "submit", "category": "billing", "priority": "high", "decision": "resolve", "message": reply},
			{"action_type": "select_ticket", "ticket_id": "1"},
			{"action_type": "submit", "category": "technical", "decision": "escalate", "team": "billing"},
			{"action_type": "select_ticket", "ticket_id": "2"}, {"action_type": "resolve", "message": reply},
			{"action_type": "select_ticket", "ticket_id": "3"}, {"action_type": "resolve", "message": reply},
			{"action_type": "select_ticket", "ticket_id": "4"}, {"action_type": "resolve", "message": reply},
		}},
		"case": {"workflow", map[string]any{"task": "case-easy", "seed": 3}, []map[string]any{
			{"action_type": "ask_customer", "payload": map[string]any{"message": "Which order is it about?"}},
			{"action_type": "look_up_customer"},
			{"action_type": "look_up_policy", "payload": map[string]any{"topic": "money"}},
			{"action_type": "respond_user", "payload": map[string]any{"message": reply}},
		}},
		"conversation": {"workflow", map[string]any{"task": "talk-easy", "seed": 3}, []map[string]any{
			{"action_type": "tell", "payload": map[string]any{"message": "Which order is it about?",
				"asks": []string{"order", "anything_else"}}},
			{"action_type": "tell", "payload": map[string]any{"message": "Would a credit do? Shall I refund it?",
				"offers": []string{"issue_credit"}, "confirms": []string{"initiate_refund", "cancel_order"}, "order_id": "LD-1"}},
			{"action_type": "look_up_customer"},
			{"action_type": "look_up_policy", "payload": map[string]any{"topic": "money"}},
			{"action_type": "respond_user", "payload": map[string]any{"message": reply}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := serve(t, openenv.Config{Kind: kindOf(t, test.environment), MaxSessions: 1, CapacityWait: time.Second})
			want := playClient(t, server, test.options, test.actions)
			// Every game but that of the queue is reviewed.
			reviewed := name != "queue"
			base := playground(t, server, func(cfg *play.Config) {
				targets := cfg.Targets
				cfg.Targets = func(r *http.Request) ([]play.Target, error) {
					all, err := targets(r)
					if reviewed {
						all[0].Review = review(t, test.environment)
					}
					return all, err
				}
			})
			start := url.Values{}
			for option, value := range test.options {
				start.Set(option, fmt.Sprint(value))
			}
			game, body := begin(t, base, start)
			for i, a := range test.actions {
				form := values("turn", fmt.Sprint(i), "action", a["action_type"].(string))
				fields, nested := a["payload"].(map[string]any)
				if !nested {
					fields = a
				}
				for field, value := range fields {
					if many, ok := value.([]string); ok {
						form["f."+field] = many
					} else if field != "action_type" {
						form.Set("f."+field, strings.ReplaceAll(fmt.Sprint(value), "\n", "\r\n"))
					}
				}
				var status int
				if status, _, body = send(t, http.MethodPost, game+"/step", form, nil); status != http.StatusOK ||
					strings.Contains(body, "Not played.") || strings.Contains(body, "was lost") {
					t.Fatalf("action %d: %d\n%s", i, status, body)
				}
			}
			if !strings.Contains(body, "<b>"+want+"</b><span>score") || !strings.Contains(body, "Play again") {
				t.Errorf("the score %s is missing in\n%s", want, body)
			}
			for _, gold := range []string{"Lost: ", "right: ", "A good reply"} {
				if strings.Contains(body, gold) != reviewed {
					t.Errorf("%q: the page of a game that is reviewed (%t)\n%s", gold, reviewed, body)
				}
			}
			// The server has one slot, which the end has freed.
			begin(t, base, start)
		})
	}
}

// playClient plays actions over the client. A ticket_id is the place of a ticket in the queue and
// is replaced by its id.
func playClient(t *testing.T, server string, options map[string]any, actions []map[string]any) (score string) {
	t.Helper()
	c, err := client.Dial(t.Context(), server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seen, err := c.Reset(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	var first struct {
		Queue []struct {
			TicketID string `json:"ticket_id"`
		} `json:"queue"`
	}
	if err := json.Unmarshal(seen.Observation, &first); err != nil {
		t.Fatal(err)
	}
	for _, a := range actions {
		if place, ok := a["ticket_id"].(string); ok {
			a["ticket_id"] = first.Queue[place[0]-'0'].TicketID
		}
		if seen, err = c.Step(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if !seen.Done || *seen.Metadata.EpisodeScore == 0 {
		t.Fatalf("the episode hasn't ended with points: %s", seen.Observation)
	}
	return fmt.Sprintf("%.3f", *seen.Metadata.EpisodeScore)
}

// A refused action keeps the form's values and says why; the episode continues.
func TestRefusedActions(t *testing.T) {
	base := playground(t, serve(t, openenv.Config{Kind: kindOf(t, "ticket")}), nil)
	game, _ := begin(t, base, values("task", "ticket-resolve", "seed", "1"))
	for _, test := range []struct {
		name string
		form url.Values
		want []string
	}{
		{"schema", values("turn", "0", "action", "classify"), []string{"Not played.", `<details class="action" name="action-1" open>`}},
		{"choice", values("turn", "0", "action", "classify", "f.category", "nonsense"), []string{"Not played.", "billing"}},
		{"kept", values("turn", "1", "action", "respond", "f.message", `a "kept" </textarea>`), []string{"sent before", "a &#34;kept&#34; &lt;/textarea&gt;"}},
		{"facts", values("turn", "0", "action", "respond", "f.message", "Hi", "f.facts.1.value", "$5"), []string{"Row 2 of facts lacks its what",
			`name="f.facts.1.value" value="$5"`, `aria-label="facts 8: what"`, "<dt>team</dt><dd>the team that takes over (disputes,"}},
		{"unknown", values("turn", "0", "action", "fly"), []string{"no action &#34;fly&#34;"}},
		{"raw", values("turn", "0", "raw", "[1]"), []string{"not a JSON object", "[1]</textarea>"}},
	} {
		_, _, body := send(t, http.MethodPost, game+"/step", test.form, nil)
		for _, want := range test.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %q is missing in\n%s", test.name, want, body)
			}
		}
		if !strings.Contains(body, "<dt>Step</dt><dd>0 of 10</dd>") {
			t.Errorf("%s: a step was used", test.name)
		}
	}
	_, _, body := send(t, http.MethodPost, game+"/step", values("turn", "0", "raw", `{"action_type":"respond","message":"Hi"}`), nil)
	if strings.Contains(body, "Not played.") || !strings.Contains(body, "1 of 10") {
		t.Errorf("JSON isn't played:\n%s", body)
	}
	_, _, body = send(t, http.MethodPost, game+"/step", values("turn", "1", "action", "respond", "f.message", "It is $5.",
		"f.facts.0.what", "price", "f.facts.0.value", "$5"), nil)
	if !strings.Contains(body, "<dt>price</dt><dd>$5</dd>") {
		t.Errorf("the facts stated aren't shown:\n%s", body)
	}
}

// hostile is an OpenEnv server whose every text is markup.
func hostile(t *testing.T) string {
	const bad = `<script>alert(1)</script>\u202e\" onload=\"x`
	observation := `{"ticket_id":"` + bad + `","subject":"` + bad + `","description":"` + bad + `","queue":[{"ticket_id":"` + bad + `","subject":"` + bad +
		`"}],"feedback":"` + bad + `","task":"` + bad + `","attachments":[{"name":"` + bad + `","content":"` + bad + `"}],"conversation_history":[{"role":"` +
		bad + `","content":"` + bad + `","facts":[{"what":"` + bad + `","value":"` + bad + `"}]}],"knowledge_base":[{"id":"` + bad + `","title":"` + bad + `","body":"` + bad + `"}]}`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /schema", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"action":{"anyOf":[{"properties":{"action_type":{"const":"`+bad+`"}}},`+
			`{"properties":{"action_type":{"const":"ok","description":"`+bad+`"},"`+bad+`":{"type":"string","description":"`+bad+`"},"n":{"enum":["`+bad+`"]},"x":{"type":"boolean"},"y":true,`+
			`"l":{"type":"array","maxItems":2,"items":{"properties":{"`+bad+`":{"enum":["`+bad+`"],"description":"x\n`+bad+`: `+bad+`"}}}}}}]}}`)
	})
	mux.HandleFunc("GET /ws", func(w http.ResponseWriter, r *http.Request) {
		upgrader := websocket.Upgrader{}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for i := 0; ; i++ {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
			answer := `{"type":"observation","data":{"observation":` + observation + `,"done":false}}`
			switch i {
			case 1:
				answer = `{"type":"error","data":{"code":"VALIDATION_ERROR","message":"` + bad + `"}}`
			case 2:
				answer = `{"type":"observation","data":{"observation":` + observation + `,"reward":1,"done":true,"metadata":{"outcome":"` + bad +
					`","judge":"` + bad + `","score_breakdown":[{"name":"` + bad + `","earned":1e308,"offered":1}],"verdicts":["` + bad +
					`",{"criteria":[{"id":"` + bad + `","reason":"` + bad + `"}]}]}}}`
			}
			if conn.WriteMessage(websocket.TextMessage, []byte(answer)) != nil {
				return
			}
		}
	})
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h.URL
}

func TestHostileTexts(t *testing.T) {
	base := playground(t, hostile(t), nil)
	game, body := begin(t, base, values("task", "<script>alert(1)</script>", "seed", "1"))
	pages := []string{body}
	for _, turn := range []string{"0", "0"} {
		_, _, body := send(t, http.MethodPost, game+"/step", values("turn", turn, "action", "ok", "f.n", "<script>alert(1)"), nil)
		pages = append(pages, body)
	}
	_, _, body = send(t, http.MethodGet, base+"/play/?task=<script>alert(1)&seed=\"><script>alert(1)", nil, nil)
	pages = append(pages, body)
	for i, body := range pages {
		if strings.Contains(body, "<script>alert") || strings.ContainsRune(body, '\u202e') ||
			regexp.MustCompile(`<[^>]* onload="x`).MatchString(body) {
			t.Errorf("page %d has markup of the server:\n%s", i, body)
		}
	}
	if !strings.Contains(pages[1], "Not played.") || !strings.Contains(pages[2], "Grade") {
		t.Errorf("the game isn't played to its end:\n%s", pages[2])
	}
}

func TestEndsOfGames(t *testing.T) {
	server := serve(t, openenv.Config{Kind: kindOf(t, "ticket")})
	base := playground(t, server, func(c *play.Config) { c.MaxGames, c.IdleTimeout = 1, 3*time.Second })
	game, _ := begin(t, base, values("seed", "1"))
	form := values("target", "it", "seed", "2", "task", "ticket-resolve")
	status, _, body := send(t, http.MethodPost, base+"/play/start", form, nil)
	if status != http.StatusBadGateway || !strings.Contains(body, "All 1 places of the playground are taken") ||
		!strings.Contains(body, `name="seed" value="2"`) {
		t.Errorf("a second game: %d\n%s", status, body)
	}
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for deadline.Err() == nil { // asking keeps a game, so wait longer than its timeout
		<-time.After(3300 * time.Millisecond)
		if status, _, body = send(t, http.MethodGet, game, nil, nil); status == http.StatusNotFound {
			break
		}
	}
	if status != http.StatusNotFound || !strings.Contains(body, "This game has ended") {
		t.Errorf("an idle game: %d\n%s", status, body)
	}
	game, _ = begin(t, base, form)
	if _, at, _ := send(t, http.MethodPost, game+"/end", nil, nil); !strings.Contains(at, "/play/?seed=2&target=it&task=ticket-resolve") {
		t.Errorf("leaving leads to %s", at)
	}
	begin(t, base, values("seed", "3"))
}

func TestRefusedRequests(t *testing.T) {
	base := playground(t, serve(t, openenv.Config{Kind: kindOf(t, "ticket")}), nil)
	for name, test := range map[string]struct {
		method, path string
		form         url.Values
		header       http.Header
		status       int
		want         string
	}{
		"other site": {http.MethodPost, "/play/start", values("seed", "1"), http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, "cross-origin"},
		"origin":     {http.MethodPost, "/play/games/x/step", nil, http.Header{"Origin": {"http://evil.example"}}, 403, "cross-origin"},
		"no game":    {http.MethodGet, "/play/games/unknown", nil, nil, 404, "This game has ended"},
		"no page":    {http.MethodGet, "/play/nothing", nil, nil, 404, "no page"},
		"seed":       {http.MethodPost, "/play/start", values("target", "it", "seed", "-1"), nil, 422, "The seed is not a whole number"},
		"task":       {http.MethodPost, "/play/start", values("target", "it", "seed", "1", "task", "none"), nil, 502, "none"},
		"target":     {http.MethodPost, "/play/start", values("target", "none", "seed", "1"), nil, 404, "no place to play"},
		"large":      {http.MethodPost, "/play/start", values("seed", strings.Repeat("1", 300<<10)), nil, 400, "at most 256 KiB"},
	} {
		if status, _, body := send(t, test.method, base+test.path, test.form, test.header); status != test.status ||
			!strings.Contains(body, test.want) {
			t.Errorf("%s: %d\n%s", name, status, body)
		}
	}
}
