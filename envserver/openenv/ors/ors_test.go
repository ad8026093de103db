package ors_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// client is an OpenReward client without the library.
type client struct {
	t       *testing.T
	url, id string
}

func open(t *testing.T, cfg openenv.Config) *client {
	t.Helper()
	cfg.Kind, cfg.LedgerKey = echo.Kind{}, echo.LedgerKey()
	s, err := openenv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	c := &client{t: t, url: h.URL}
	c.session()
	return c
}

func (c *client) send(method, path, body string) *http.Response {
	c.t.Helper()
	request, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set(protocol.SessionHeader, c.id)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	return response
}

func (c *client) text(method, path, body string) (status int, text string) {
	c.t.Helper()
	response := c.send(method, path, body)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

type event struct{ name, data string }

// events sends a request and reads the stream like the library: line by line, without the spaces
// at the beginning of data.
func (c *client) events(path, body string) []event {
	c.t.Helper()
	response := c.send(http.MethodPost, path, body)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("%s: %s %s", path, response.Status, response.Header.Get("Content-Type"))
	}
	var all []event
	var next event
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ":"); name {
		case "event":
			next.name = strings.TrimSpace(value)
		case "data":
			next.data = strings.TrimLeft(value, " \t\u00a0")
		case "":
			if next.name != "" {
				all = append(all, next)
			}
			next = event{}
		}
	}
	if err := lines.Err(); err != nil {
		c.t.Fatalf("%s: %v", path, err)
	}
	return all
}

func (c *client) session() {
	c.t.Helper()
	events := c.events("/create_session", "{}")
	if len(events) != 2 || events[0].name != "task_id" || events[1].name != "end" {
		c.t.Fatalf("/create_session: %v", events)
	}
	c.id = events[0].data
}

func (c *client) create(body string) {
	c.t.Helper()
	if status, text := c.text(http.MethodPost, "/create", body); status != http.StatusOK || text != `{"sid":"`+c.id+`"}` {
		c.t.Fatalf("/create %s: %d %s", body, status, text)
	}
}

// call plays a tool and returns the joined answer.
func (c *client) call(body string) string {
	c.t.Helper()
	events := c.events("/call", body)
	if len(events) < 2 || events[0].name != "task_id" {
		c.t.Fatalf("/call %s: %v", body, events)
	}
	var answer strings.Builder
	for _, e := range events[1:] {
		if e.name == "error" {
			return "error: " + e.data
		}
		answer.WriteString(e.data)
	}
	return answer.String()
}

func TestEpisode(t *testing.T) {
	c := open(t, openenv.Config{})
	if got, want := c.call(`{"name":"say","input":{}}`), `{"ok":false,"error":"no episode yet: POST /create first"}`; got != want {
		t.Errorf("a call before /create: %s", got)
	}
	if status, text := c.text(http.MethodGet, "/prompt", ""); status != http.StatusBadRequest ||
		!strings.Contains(text, "/create") {
		t.Errorf("a prompt before /create: %d %s", status, text)
	}
	c.create(`{"split":"train","index":1}`)
	const prompt = `{"text":"Says what it is told. Use the tools. The observation of the task:\n{\"text\":\"hello\",\"seed\":0}","detail":null,"type":"text"}`
	for path, want := range map[string]string{
		"/prompt": `[` + prompt + `]`, "/talk/prompt": `[` + prompt + `]`,
		"/echo/messages": `[{"blocks":[` + prompt + `],"detail":null,"role":"user"}]`,
	} {
		if status, text := c.text(http.MethodGet, path, ""); status != http.StatusOK || text != want {
			t.Errorf("%s (-want +got)\n%s", path, cmp.Diff(want, text))
		}
	}
	block := func(text string) string {
		quoted, _ := jsontext.AppendQuote(nil, text)
		return `{"text":` + string(quoted) + `,"detail":null,"type":"text"}`
	}
	const metadata = `{"episode_score":0.85,"score_breakdown":[{"name":"talk","earned":0.85,"offered":1.0}],"right":true,` +
		`"outcome":"scored","judge":"rules","scenario_digest":"sha256:00ff","grader_version":"echo.1"}`
	for _, step := range []struct{ send, want string }{
		{`{"name":"say","input":{"text":"hi","reward":200,"bytes":null}}`, `{"ok":true,"output":{"blocks":[` +
			block(`{"text":"hi","seed":0}`) + `],"metadata":null,"reward":0.2,"finished":false}}`},
		{`{"name":"get_observation","input":{}}`, `{"ok":true,"output":{"blocks":[` +
			block(`{"text":"hi","seed":0}`) + `],"metadata":null,"reward":null,"finished":false}}`},
		{`{"name":"zzz","input":{}}`,
			`{"ok":false,"error":"Invalid arguments: kind should be say","reason":"input_validation"}`},
		{`{"name":"juggle","input":{}}`, `{"ok":false,"error":"tool \"juggle\" not found","reason":"not_found"}`},
		{`{"name":"fail","input":{}}`, `error: the backend is gone`},
		{`{"name":"finish","input":{"score":850000,"reward":850}}`, `{"ok":true,"output":{"blocks":[` +
			block(`{"text":"","seed":0,"metadata":`+metadata+`}`) + `],"metadata":` + metadata +
			`,"reward":0.85,"finished":true}}`},
		{`{"name":"say","input":{"reward":1000}}`,
			`{"ok":false,"error":"the episode is over","reason":"episode_finished"}`},
	} {
		if diff := cmp.Diff(step.want, c.call(step.send)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", step.send, diff)
		}
	}
}

// A task is one instance: without a seed every session plays the same one.
func TestTasks(t *testing.T) {
	c := open(t, openenv.Config{})
	for body, want := range map[string]string{
		`{"split":"test","index":0}`: "E03 0",
		`{"task_spec":{"id":"talk/E02","index":9,"task":"talk","scenario":"E02"}}`:         "E02 0",
		`{"task_spec":{"scenario":"E01","seed":7,"note":null},"env_name":"talk"}`:          "E01 7",
		`{"task_spec":{"split":"train","index":1,"seed":5},"env_name":"Echo"}`:             "E02 5",
		`{"task_spec":{"csenv":{"scenario":"E03","seed":4}},"env_name":"env"}`:             "E03 4",
		`{"task_spec":{"row_index":0,"invalid_action_penalty":0.1}}`:                       "E01 0",
		`{"split":"train","index":0,"env_name":null,"task_spec":null,"toolset_name":null}`: "E01 0",
	} {
		c.create(body)
		var state struct {
			Scenario string `json:"scenario"`
			Seed     json.Number
		}
		_, text := c.text(http.MethodGet, "/state", "")
		if err := json.Unmarshal([]byte(text), &state); err != nil || state.Scenario+" "+state.Seed.String() != want {
			t.Errorf("%s plays %s, want %s", body, text, want)
		}
	}
	for body, want := range map[string]string{
		`{}`: `send either task_spec or both split and index`, `{"split":"train"}`: `send either`,
		`{"split":"train","index":0,"task_spec":{}}`:                                   `send either`,
		`{"split":"train","index":7}`:                                                  `"loc":["task_spec","index"]`,
		`{"split":"train","index":0,"env_name":"juggling"}`:                            `unknown environment 'juggling': choose one of echo, talk`,
		`{"split":"train","index":0,"toolset_name":"codex"}`:                           `leave toolset_name out`,
		`{"split":"train","index":0,"secrets":{}}`:                                     `"loc":["secrets"]`,
		`{"task_spec":[]}`:                                                             `task_spec should be a JSON object`,
		`{"task_spec":{"task":"juggle"}}`:                                              `unknown task`,
		`{"task_spec":{"run":"u","shard":0,"episode":0,"invalid_action_penalty":0.1}}`: `have no invalid_action_penalty`,
		`{"task_spec":{"invalid_action_penalty":2}}`:                                   `from 0 to 1`,
	} {
		if status, text := c.text(http.MethodPost, "/create", body); status != http.StatusUnprocessableEntity ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", body, status, text, want)
		}
	}
}

func TestRequests(t *testing.T) {
	c := open(t, openenv.Config{})
	for _, r := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{http.MethodGet, "/talk/tools", "", 200, `"input_schema":{"type":"object"`},
		{http.MethodGet, "/task_tools", "", 200, `"terminal_tool":null`},
		{http.MethodGet, "/juggling/tools", "", 404, "unknown environment"},
		{http.MethodGet, "/version", "", 200, `{"build_sha":null,"version":"dev"}`},
		{http.MethodPost, "/call", `{"name":"say"}`, 422, "input should be a JSON object"},
		{http.MethodPost, "/call", `{"name":7,"input":{}}`, 422, "name should be a string"},
		{http.MethodPost, "/call", `{"input":{}}`, 422, "name should be the name of a tool"},
		{http.MethodPost, "/call", `{"name":"say","input":{},"more":1}`, 422, "more"},
		{http.MethodPost, "/call", `{"name":"say","input":{},"task_id":"nobody"}`, 200, "unknown task_id"},
		{http.MethodPost, "/score_group", `{}`, 404, "Not Found"},
		{http.MethodPost, "/create_session", `{"env":{"A":"1"}}`, 422, "options of a reset in the task_spec"},
		{http.MethodGet, "/call", "", 405, "Method Not Allowed"},
	} {
		if status, text := c.text(r.method, r.path, r.body); status != r.status || !strings.Contains(text, r.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", r.method, r.path, r.body, status, text, r.status, r.want)
		}
	}
	c.id = "nobody"
	if status, text := c.text(http.MethodPost, "/ping", ""); status != http.StatusGone ||
		!strings.Contains(text, "/create_session") {
		t.Errorf("an unknown session: %d %s", status, text)
	}
	if status, _ := c.text(http.MethodPost, "/delete_session", ""); status != http.StatusOK {
		t.Errorf("deleting an unknown session: %d", status)
	}
	c.id = ""
	if status, text := c.text(http.MethodPost, "/ping", ""); status != http.StatusBadRequest ||
		!strings.Contains(text, "X-Session-ID") {
		t.Errorf("no session: %d %s", status, text)
	}
}

func TestOpenWithoutASlotIsRefused(t *testing.T) {
	c := open(t, openenv.Config{MaxSessions: 1})
	response := c.send(http.MethodPost, "/create_session", "{}")
	_ = response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("a session beyond the capacity: %s %v", response.Status, response.Header)
	}
}

func TestRunsOnlyRefusesOtherEpisodes(t *testing.T) {
	c := open(t, openenv.Config{SharedKey: true, RunsOnly: true})
	if status, text := c.text(http.MethodPost, "/create", `{"split":"train","index":0}`); status !=
		http.StatusUnprocessableEntity || !strings.Contains(text, "only the runners of EvaluationRuns play here") {
		t.Errorf("/create: %d %s", status, text)
	}
}

func TestPenalty(t *testing.T) {
	c := open(t, openenv.Config{})
	c.create(`{"task_spec":{"scenario":"E01","invalid_action_penalty":0.25}}`)
	for send, want := range map[string]string{
		`{"name":"zzz","input":{}}`:    `"feedback\":\"invalid action: kind should be say\"`,
		`{"name":"juggle","input":{}}`: `choose one of get_observation, say`,
	} {
		if got := c.call(send); !strings.HasPrefix(got, `{"ok":true,`) || !strings.Contains(got, want) ||
			!strings.HasSuffix(got, `"reward":-0.25,"finished":false}}`) {
			t.Errorf("%s: %s, want %s", send, got, want)
		}
	}
}

// A client that loses the stream of a call gets the answer by the call's id, and the call is played
// once.
func TestResumedCallIsPlayedOnce(t *testing.T) {
	c := open(t, openenv.Config{})
	c.create(`{"split":"train","index":0}`)
	const body = `{"name":"say","input":{"kind":"wait","text":"late","wait":200000000}}`
	response := c.send(http.MethodPost, "/call", body)
	first := make([]byte, len("event: task_id\ndata: 00000000-0000-0000-0000-000000000000\n\n"))
	if _, err := io.ReadFull(response.Body, first); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // the call still runs
	id := strings.TrimSpace(strings.TrimPrefix(string(first), "event: task_id\ndata: "))
	resumed := strings.TrimSuffix(body, "}") + `,"task_id":"` + id + `"}`
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			if got := c.call(resumed); !strings.Contains(got, `\"text\":\"late\"`) {
				t.Errorf("the call's answer is %s", got)
			}
		})
	}
	asking.Wait()
	if _, state := c.text(http.MethodGet, "/state", ""); !strings.Contains(state, `"step_count":1,`) {
		t.Errorf("the call was played more than once: %s", state)
	}
	c.call(`{"name":"say","input":{}}`)
	if got := c.events("/call", resumed); len(got) != 1 || got[0] != (event{"error", "unknown task_id"}) {
		t.Errorf("an answer is kept after the next call has ended: %v", got)
	}
}

func TestCallsAreBounded(t *testing.T) {
	c := open(t, openenv.Config{})
	c.create(`{"split":"train","index":0}`)
	var refused sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 8 {
		refused.Go(func() {
			response := c.send(http.MethodPost, "/call", `{"name":"say","input":{"kind":"wait","wait":300000000}}`)
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			statuses[response.StatusCode]++
		})
	}
	refused.Wait()
	if diff := cmp.Diff(map[int]int{200: 4, 503: 4}, statuses); diff != "" {
		t.Errorf("eight calls at a time (-want +got)\n%s", diff)
	}
}

func TestLongAnswers(t *testing.T) {
	c := open(t, openenv.Config{})
	c.create(`{"split":"train","index":0}`)
	text := strings.Repeat("ü \u00a0\u2003 x", 20_000)
	quoted, _ := jsontext.AppendQuote(nil, text)
	var answer struct {
		Output struct{ Blocks []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(c.call(`{"name":"say","input":{"text":`+string(quoted)+`}}`)), &answer); err != nil {
		t.Fatal(err)
	}
	var observation struct{ Text string }
	if err := json.Unmarshal([]byte(answer.Output.Blocks[0].Text), &observation); err != nil || observation.Text != text {
		t.Errorf("a text of %d bytes arrived as one of %d: %v", len(text), len(observation.Text), err)
	}
}
