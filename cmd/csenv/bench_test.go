package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/csenv/csenv/cmd/csenv/evaluate"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/server"
)

// serveTickets serves the built-in tickets with that number of sessions, with a token unless it is
// "".
func serveTickets(t *testing.T, sessions int, token string) string {
	t.Helper()
	kind, err := ticket.New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	cfg := openenv.Config{Kind: kind, MaxSessions: sessions}
	if token != "" {
		cfg.Tokens = func() []string { return []string{token} }
	}
	return server.Start(t, cfg).URL
}

func TestBench(t *testing.T) {
	url := serveTickets(t, 4, "")
	out, errs, code := csenv(t, "bench", url, "--sessions", "1,4", "--duration", "100ms", "-o", "json")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var report evaluate.BenchReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 2 || len(report.Actions) != 1 {
		t.Fatalf("report %+v", report)
	}
	for _, row := range report.Rows {
		if row.Open != row.Sessions || row.Steps == 0 || row.StepsPerSecond <= 0 || row.Step.P50 <= 0 ||
			row.Step.P99 < row.Step.P50 || row.Connect.P99 <= 0 || len(row.Failures) != 0 {
			t.Errorf("row %+v", row)
		}
	}
}

// If a server has fewer slots than requested sessions, the accepted ones are measured, and the
// output reports it.
func TestBenchBeyondCapacity(t *testing.T) {
	url := serveTickets(t, 2, "")
	out, errs, code := csenv(t, "bench", url, "--sessions", "3", "--duration", "50ms", "--action",
		`{"action_type":"search_knowledge_base","query":"refund"}`)
	if code != exitOutcome || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"STEPS/S", "CAPACITY_REACHED", "1 session failed", "search_knowledge_base"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	narrow(t, out)
}

func TestBenchToken(t *testing.T) {
	url := serveTickets(t, 2, "secret")
	args := []string{"bench", url, "--sessions", "1", "--duration", "20ms"}
	for name, c := range map[string]struct {
		variable, token string
		code            int
	}{
		"no token":           {code: exitError},
		"a wrong one":        {token: "guess", code: exitError},
		"the right one":      {token: "secret", code: exitDone},
		"in the environment": {variable: "secret", code: exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(envvars.PoolToken, c.variable)
			_, errs, code := csenv(t, append(args, "--token", c.token)...)
			if code != c.code || code == exitError && !strings.Contains(errs, "--token") {
				t.Errorf("exit code %d: %s", code, errs)
			}
		})
	}
}

func TestBenchErrors(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	foreign := server.Start(t, openenv.Config{Kind: echo.Kind{Refusing: true}})
	url := serveTickets(t, 1, "")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no URL":           {nil, "missing argument URL"},
		"not listening":    {[]string{gone.URL}, "nothing listens there"},
		"no OpenEnv":       {[]string{other.URL}, "base URL of an OpenEnv server"},
		"a scheme":         {[]string{"ftp://localhost"}, "use http"},
		"no sessions":      {[]string{url, "--sessions", "0"}, "--sessions takes numbers"},
		"too many":         {[]string{url, "--sessions", "1000000"}, "--sessions takes numbers"},
		"no time":          {[]string{url, "--duration", "0s"}, "--duration is 0s"},
		"a broken action":  {[]string{url, "--action", "{"}, `--action is "{"`},
		"a list for reset": {[]string{url, "--reset", "[]"}, `--reset is "[]"`},
		"a seed as text":   {[]string{url, "--reset", `{"seed":"7"}`}, "must be a whole number"},
		"a foreign server": {args: []string{foreign.URL}, want: "give one with --action"},
		"a refused action": {[]string{url, "--action", `{"action_type":"fly"}`}, "refuses the action"},
		"a refused reset":  {[]string{url, "--reset", `{"task":"juggle"}`}, "juggle"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs, code := csenv(t, append([]string{"bench"}, c.args...)...)
			if code != exitError || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d, no %q in: %s", code, c.want, errs)
			}
		})
	}
}
