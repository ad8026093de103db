package openenv

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestTaskAPI(t *testing.T) {
	_, url := serve(t, Config{})
	spec := func(index int, split, scenario, difficulty, language string) string {
		return fmt.Sprintf(
			`{"id":"talk/%s","index":%d,"split":%q,"task":"talk","scenario":%q,"difficulty":%q,"language":%q}`, scenario, index, split, scenario, difficulty, language)
	}
	first, second, third := spec(0, "train", "E01", "easy", "en"), spec(1, "train", "E02", "hard", "de"), spec(0,
		"test", "E03", "hard", "de")
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/echo/tasks", `{"split":"train"}`, 200, `{"env_name":"echo","tasks":[` + first + `,` + second + `]}`},
		{"/ECHO/tasks", `{"split":"public-test"}`, 200, `{"env_name":"echo","tasks":[` + third + `]}`},
		{"/talk/num_tasks", `{"split":"train"}`, 200, `{"num_tasks":2}`},
		{"/echo/task", `{"split":"train","index":1}`, 200, `{"env_name":"echo","task":` + second + `}`},
		{"/echo/task", `{"split":"train","index":2}`, 400, `{"detail":"Invalid task index"}`},
		{"/echo/task", `{"split":"train","index":-1}`, 400, `{"detail":"Invalid task index"}`},
		{"/echo/task_range", `{"split":"train"}`, 200, `{"env_name":"echo","tasks":[` + first + `,` + second + `]}`},
		{"/echo/task_range", `{"split":"train","start":1,"stop":null}`, 200, `{"env_name":"echo","tasks":[` + second + `]}`},
		{"/echo/task_range", `{"split":"train","start":1,"stop":1}`, 200, `{"env_name":"echo","tasks":[]}`},
		{"/echo/task_range", `{"split":"train","start":5,"stop":-3}`, 200, `{"env_name":"echo","tasks":[]}`},
		{"/echo/task_range", `{"split":"train","start":-1}`, 200, `{"env_name":"echo","tasks":[` + second + `]}`},
		{"/task", `{"split":"test","index":0}`, 200, `{"env_name":"echo","task":` + third + `}`},
		{"/env/num_tasks", `{"split":"train"}`, 200, `{"num_tasks":2}`},
		{"/nobody/tasks", `{"split":"train"}`, 404,
			`{"detail":"unknown environment 'nobody': choose one of echo, talk"}`},
		{"/echo/tasks", `{"split":"holdout"}`, 400, `{"detail":"unknown split 'holdout'"}`},
		{"/echo/tasks", `{}`, 422, `{"detail":[{"type":"missing","loc":["body","split"],"msg":"Field required"}]}`},
		{"/echo/tasks", `{"split":7}`, 422, ``},
		{"/echo/tasks", `{"split":null}`, 422, ``},
		{"/echo/tasks", `{"split":"train","index":1}`, 422, ``},
		{"/echo/task", `{"split":"train"}`, 422,
			`{"detail":[{"type":"missing","loc":["body","index"],"msg":"Field required"}]}`},
		{"/echo/task", `{"split":"train","index":"x"}`, 422, ``},
		{"/echo/task_range", `{"split":"train","start":99999999999999999999}`, 422, ``},
		{"/echo/splits", `{}`, 405, `{"detail":"Method Not Allowed"}`},
		{"/echo/other", `{}`, 404, `{"detail":"Not Found"}`},
	} {
		status, body := wire.PostBody(t, url+c.path, c.body)
		if status != c.status || c.want != "" && body != c.want {
			t.Errorf("%s %s: %d (-want +got)\n%s", c.path, c.body, status, cmp.Diff(c.want, body))
		}
	}
	for path, want := range map[string]string{
		"/list_environments": `["echo","talk"]`,
		"/splits":            `[{"name":"train","type":"train"},{"name":"test","type":"test"}]`,
		"/Echo/splits":       `[{"name":"train","type":"train"},{"name":"test","type":"test"}]`,
	} {
		if status, body := wire.GetBody(t, url+path); status != 200 || body != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := wire.GetBody(t, url+"/"); status != 200 || !strings.Contains(body, "OpenEnv server of csenv") {
		t.Errorf("/: %d %s", status, body)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(url + "/echo/splits/")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusTemporaryRedirect || response.Header.Get("Location") != "/echo/splits" {
		t.Errorf("a trailing slash: %s %v", response.Status, response.Header)
	}
}

// A reset by split and index begins the task that the Task API lists there, over every transport,
// and never one of another split.
func TestResetBySplit(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	scenario := func(options string) any {
		t.Helper()
		p.Ask(`{"type":"reset","data":` + options + `}`)
		return wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "scenario")
	}
	for options, want := range map[string]string{
		`{"split":"train","index":0,"seed":1}`:                  "E01",
		`{"split":"train","index":1,"seed":2}`:                  "E02",
		`{"split":"TEST","index":0}`:                            "E03",
		`{"split":"public-test"}`:                               "E03",
		`{"split":"test","task":"talk","index":"0"}`:            "E03",
		`{"split":"train","index":1,"scenario":"E01"}`:          "E01",
		`{"index":77,"scenario":"E02","prompt":[{"role":"x"}]}`: "E02",
		`{"row_index":1,"seed":2}`:                              "E02",
		`{"row_index":"0","seed":1,"evaluation":false}`:         "E01",
		`{"row_index":7,"evaluation":true}`:                     "E03",
		`{"evaluation":true,"task":"talk"}`:                     "E03",
		`{"row_index":1,"split":"train","index":0}`:             "E01",
		`{"row_index":99,"evaluation":true,"scenario":"E02"}`:   "E02",
		`{"row_index":[1],"evaluation":"x","seed":1}`:           "E02",
	} {
		if got := scenario(options); got != want {
			t.Errorf("%s plays %v, want %s", options, got, want)
		}
	}
	for seed := range 20 {
		options := fmt.Sprintf(`{"split":"train","seed":%d}`, seed)
		if got := scenario(options); got != scenario(options) || got == "E03" {
			t.Errorf("%s plays %v", options, got)
		}
	}
	for options, want := range map[string]string{
		`{"split":"holdout"}`:           `["data","split"]`,
		`{"split":"train","index":2}`:   `["data","index"]`,
		`{"split":"train","index":-1}`:  `["data","index"]`,
		`{"csenv":{"split":["train"]}}`: `["data","csenv","split"]`,
		`{"row_index":2}`:               `["data","row_index"]`,
		`{"row_index":-1}`:              `["data","row_index"]`,
		`{"csenv":{"evaluation":"x"}}`:  `["data","csenv","evaluation"]`,
	} {
		if answer := p.Ask(`{"type":"reset","data":` + options + `}`); wire.CodeOf(t,
			answer) != protocol.CodeValidation ||
			!strings.Contains(answer, `"loc":`+want) {
			t.Errorf("%s: %s", options, answer)
		}
	}
	if status, body := wire.PostBody(t, url+"/reset", `{"split":"holdout"}`); status != 422 ||
		!strings.Contains(body, `"loc":["body","split"]`) {
		t.Errorf("by POST: %d %s", status, body)
	}
}
