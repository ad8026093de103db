package openenv

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestDocuments(t *testing.T) {
	_, url := serve(t, Config{Version: "v1.2.3"})
	for path, want := range map[string]string{
		"/health":   `{"status":"healthy"}`,
		"/metadata": `{"author":null,"description":"Says what it is told.","documentation_url":null,"name":"echo","readme_content":null,"version":"v1.2.3"}`,
	} {
		if status, body := wire.GetBody(t, url+path); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	_, schema := wire.GetBody(t, url+"/schema")
	for name, want := range map[string]json.RawMessage{
		"action": echo.Kind{}.Schemas().Action, "reset_observation": echo.Kind{}.Schemas().Observation,
	} {
		if diff := cmp.Diff(wire.DecodePath(t, string(want)), wire.DecodePath(t, schema, name)); diff != "" {
			t.Errorf("schema of the %s (-want +got)\n%s", name, diff)
		}
	}
	task := echo.Kind{}.Tasks()[0].Name
	if status, body := wire.GetBody(t, url+"/schema?task="+task); status != http.StatusOK ||
		wire.DecodePath(t, body, "action", "anyOf") == nil || wire.DecodePath(t, body, "state", "properties") == nil {
		t.Errorf("the schema of task %s: %d %s", task, status, body)
	}
	if status, body := wire.GetBody(t, url+"/schema?task=none"); status != http.StatusNotFound ||
		!strings.Contains(body, task) {
		t.Errorf("the schema of no task: %d %s", status, body)
	}
	for name, want := range map[string]string{"observation": "text tools tool_name result error errors feedback",
		"state": "step_count dataset_size"} {
		for member := range strings.FieldsSeq(want) {
			if wire.DecodePath(t, schema, name, "properties", member) == nil {
				t.Errorf("the schema of the %s lacks %s", name, member)
			}
		}
	}
}

// Every path of the OpenAPI document is served with its methods, and the validator's criteria are
// met.
func TestOpenAPI(t *testing.T) {
	_, url := serve(t, Config{})
	_, body := wire.GetBody(t, url+"/openapi.json")
	if got := wire.DecodePath(t, body, "info", "version"); got != "1.0.0" {
		t.Errorf("info.version is %v", got)
	}
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/reset", "/step", "/state", "/health", "/metadata", "/schema"} {
		if document.Paths[path] == nil {
			t.Errorf("%s is missing", path)
		}
	}
	for path, methods := range document.Paths {
		for method := range methods {
			request, _ := http.NewRequest(strings.ToUpper(method), url+path,
				strings.NewReader(`{"action":{"kind":"say"}}`))
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode == http.StatusMethodNotAllowed || response.StatusCode >= 500 {
				t.Errorf("%s %s: %s", method, path, response.Status)
			}
		}
	}
	for _, reference := range strings.Split(body, `"$ref":"#/components/schemas/`)[1:] {
		name := reference[:strings.IndexByte(reference, '"')]
		if wire.DecodePath(t, body, "components", "schemas", name) == nil {
			t.Errorf("component %s is missing", name)
		}
	}
}

func TestStatelessHTTP(t *testing.T) {
	s, url := serve(t, Config{})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/reset", ``, 200, ``},
		{"/reset", `null`, 200, ``},
		{"/reset", `{"seed":"7"}`, 200, `{"observation":{"text":"hello","seed":7},"reward":0.0,"done":false}`},
		{"/reset", `{"seed":7.0,"whatever":1}`, 200,
			`{"observation":{"text":"hello","seed":7},"reward":0.0,"done":false}`},
		{"/reset", `{"seed":-1}`, 422,
			`{"detail":[{"type":"greater_than_equal","loc":["body","seed"],"msg":"seed should be greater than or equal to 0","input":-1}]}`},
		{"/reset", `{"task":"juggle"}`, 422,
			`{"detail":[{"type":"value_error","loc":["body","task"],"msg":"unknown task \"juggle\": the task is talk; if this is a column of your data set, add \"csenv\": {} to the reset, so that only the options in it count","input":"juggle"}]}`},
		{"/reset", `[]`, 422,
			`{"detail":[{"type":"model_attributes_type","loc":["body"],"msg":"the body should be a JSON object","input":[]}]}`},
		{"/reset", `{"seed":`, 422, ``},
		{"/step", ``, 422, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]}`},
		{"/step", `{}`, 422, `{"detail":[{"type":"missing","loc":["body","action"],"msg":"Field required"}]}`},
		{"/step", `{"action":null}`, 422,
			`{"detail":[{"type":"dict_type","loc":["body","action"],"msg":"action should be a JSON object","input":null}]}`},
		{"/step", `{"action":{"kind":"zzz"}}`, 422,
			`{"detail":[{"type":"literal_error","loc":["kind"],"msg":"kind should be say","input":"zzz"}]}`},
		{"/step", `{"action":{"kind":"say"},"timeout_s":0}`, 422,
			`{"detail":[{"type":"greater_than","loc":["body","timeout_s"],"msg":"timeout_s should be a number greater than 0","input":0}]}`},
		{"/step", `{"action":{"kind":"say","text":"x"},"seed":4,"timeout_s":5,"request_id":"r"}`, 200,
			`{"observation":{"text":"x","seed":4},"reward":0.0,"done":false}`},
		{"/step", `{"action":{"kind":"wait","wait":3600000000000},"timeout_s":0.01}`, 500, ``},
		{"/step", `{"action":{"kind":"panic"}}`, 500, `{"detail":"the server failed to answer this request"}`},
		{"/step", `{"action":{"kind":"fail"}}`, 500, `{"detail":"the backend is gone"}`},
		{"/step", `{"action":{"kind":"unjudged"}}`, 503, ``},
		{"/reset", `{"seed":1,"note":NaN,"task_id":12,"split":3}`, 200, ``},
		{"/step", `{"action":{"kind":"say","text":NaN}}`, 422, ``},
		{"/step", `{"action":{"kind":"finish"},"run":"u","shard":0,"episode":0}`, 200, ``},
		{"/step", `{"action":{"kind":"` + strings.Repeat("x", protocol.MaxBody) + `"}}`, 413, ``},
	} {
		status, body := wire.PostBody(t, url+c.path, c.body)
		if status != c.status || (c.want != "" && body != c.want) {
			t.Errorf("%s %.80s: %d %s", c.path, c.body, status, body)
		}
	}
	if status, body := wire.GetBody(t, url+"/state"); status != 200 || wire.DecodePath(t, body, "step_count") != 0.0 {
		t.Errorf("/state: %d %s", status, body)
	}
	if got := s.ledgers.Figures().Open; got != 0 {
		t.Errorf("%d ledgers were opened by plain HTTP", got)
	}
}

// Requests by plain HTTP are bounded separately from the sessions, and end when the server drains.
func TestStatelessHTTPIsBounded(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 1})
	session := wire.Connect(t, url)
	session.Ask(`{"type":"reset","data":{}}`)
	refused := func(want string) {
		t.Helper()
		for _, path := range []string{"/reset", "/step", "/state"} {
			method := map[bool]string{true: http.MethodGet, false: http.MethodPost}[path == "/state"]
			request, _ := http.NewRequest(method, url+path, strings.NewReader(`{"action":{"kind":"say"}}`))
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" ||
				!strings.Contains(string(body), `{"detail":"`+want) {
				t.Errorf("%s: %s %s", path, response.Status, body)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	for range maxStateless {
		requests.Go(func() {
			body := strings.NewReader(`{"action":{"kind":"wait","wait":3600000000000}}`)
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/step", body)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	wire.AwaitCondition(t, "the client's share is taken", func() bool {
		release, free := s.stateless.TryTake("127.0.0.1")
		if free {
			release()
		}
		return !free
	})
	refused("64 requests are being answered")
	if release, free := s.stateless.TryTake("another"); free {
		release()
	} else {
		t.Error("one client takes what all have")
	}
	if got := session.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
		t.Errorf("a session's step was answered with %s", got)
	}
	stop()
	requests.Wait()
	wire.AwaitCondition(t, "the slots are free", func() bool {
		status, _ := wire.PostBody(t, url+"/reset", "")
		return status == 200
	})
	s.sessions.drain()
	refused("the server is draining")
}

func TestRouting(t *testing.T) {
	_, url := serve(t, Config{})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, c := range []struct {
		method, path string
		upgrade      bool
		status       int
		header, want string
	}{
		{"GET", "/nowhere", false, 404, "", ""},
		{"GET", "/ws", false, 404, "", ""},
		{"GET", "/nowhere", true, 403, "", ""},
		{"GET", "/ws/", true, 403, "", ""},
		{"POST", "/health", false, 405, "Allow", "GET"},
		{"HEAD", "/health", false, 405, "Allow", "GET"},
		{"GET", "/reset", false, 405, "Allow", "POST"},
		{"GET", "/health/?a=b", false, 307, "Location", "/health?a=b"},
		{"GET", "/metrics", false, 404, "", ""},
		{"GET", "/stats", false, 404, "", ""},
	} {
		request, _ := http.NewRequest(c.method, url+c.path, nil)
		if c.upgrade {
			request.Header.Set("Connection", "Upgrade")
			request.Header.Set("Upgrade", "websocket")
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.status || (c.header != "" && response.Header.Get(c.header) != c.want) {
			t.Errorf("%s %s: %s %v", c.method, c.path, response.Status, response.Header)
		}
	}
}

func TestBrokenFactoryOverHTTP(t *testing.T) {
	_, url := serve(t, Config{Kind: echo.Kind{Explosive: true}})
	if status, _ := wire.PostBody(t, url+"/reset", ""); status != 500 {
		t.Errorf("/reset: %d", status)
	}
	if status, _ := wire.GetBody(t, url+"/health"); status != 200 {
		t.Errorf("/health: %d", status)
	}
}

func TestOps(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 1})
	ops := httptest.NewServer(s.OpsHandler())
	defer ops.Close()
	ready := func(wantStatus int, want string) {
		t.Helper()
		if status, body := wire.GetBody(t, ops.URL+"/readyz"); status != wantStatus || body != want {
			t.Errorf("/readyz: %d %s, want %d %s", status, body, wantStatus, want)
		}
	}
	ready(200, "ok")
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{"run":"u","shard":0,"episode":0}}`)
	ready(503, "not ready")
	for _, action := range []string{`"say"`, `"zzz"`, `"fail"`, `"finish","score":250000`} {
		p.Ask(`{"type":"step","data":{"kind":` + action + `}}`)
	}
	ledgerOf(t, url, "u", 0)
	_, body := wire.GetBody(t, ops.URL+"/stats")
	var report score.Report
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatal(err)
	}
	want := score.Report{
		Protocol: score.Protocol, Environment: "echo", ScenarioDigest: "sha256:00ff", GraderVersion: "echo.1", Judge: "rules",
		Sessions: score.Sessions{Active: 1, Capacity: 1}, Episodes: score.Episodes{Scored: 1, ScoreSum: 250_000},
		Tasks: echo.Kind{}.Tasks(),
		Runs:  []score.RunReport{{Run: "u", Opened: 1, Scored: 1, ScoreSum: 250_000}},
	}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("/stats (-want +got)\n%s", diff)
	}
	p.Send(`{"type":"close"}`)
	p.Closed()
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready(503, "not ready")
	_, metrics := wire.GetBody(t, ops.URL+"/metrics")
	for _, line := range []string{
		`csenv_sessions_active 0`, `csenv_sessions_capacity 1`, `csenv_draining 1`,
		`csenv_sessions_total{result="closed"} 1`,
		`csenv_steps_total{result="played"} 2`, `csenv_steps_total{result="invalid"} 1`,
		`csenv_steps_total{result="failed"} 1`,
		`csenv_step_duration_seconds_count 4`, `csenv_episodes_total{outcome="scored",task="talk"} 1`,
		`csenv_ledgers 1`, `csenv_ledger_episodes_total{result="counted"} 1`, `csenv_ledger_reads_total 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if problems, err := testutil.GatherAndLint(s.metrics.registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func TestNewRefusesBadConfigs(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no kind":                    {LedgerKey: echo.LedgerKey()},
		"no key":                     {Kind: echo.Kind{}},
		"negative MaxSessions":       {Kind: echo.Kind{}, LedgerKey: echo.LedgerKey(), MaxSessions: -1},
		"a schema that is no object": {Kind: badSchemaKind{}, LedgerKey: echo.LedgerKey()},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// badSchemaKind has an action schema that is not a JSON object.
type badSchemaKind struct{ echo.Kind }

func (badSchemaKind) Schemas() episode.Schemas {
	schemas := echo.Kind{}.Schemas()
	schemas.Action = json.RawMessage(`[]`)
	return schemas
}
