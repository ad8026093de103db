package ui

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/cmd/csenv/evaluate"
	"github.com/csenv/csenv/envserver/score"
)

// played evaluates agents into a folder, and returns the site of its runs by their names.
func played(t *testing.T, evaluations map[string][]string) (s *site, paths map[string]string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	folder := t.TempDir()
	for name, args := range evaluations {
		evaluateInto(t, folder, name, args...)
	}
	s, _ = opened(t, "--results", folder, "--index", filepath.Join(t.TempDir(), "index.db"))
	runs, err := s.sources.runs(t.Context())
	if err != nil || len(runs) != len(evaluations) {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	paths = map[string]string{}
	for _, r := range runs {
		paths[r.Name] = runPath(r)
	}
	return s, paths
}

// evaluateInto plays a run into a folder.
func evaluateInto(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	cmd := evaluate.NewEvalCommand()
	cmd.SetArgs(append(args, "--name", name, "--results", folder))
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	_ = cmd.ExecuteContext(t.Context()) // a missed threshold is an error too
}

// get requests a page.
func get(s *site, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
	return w
}

func TestPagesOfFigures(t *testing.T) {
	tickets := []string{"ticket-resolve", "--scenario", "B06,B07,S03", "--trials", "2"}
	s, paths := played(t, map[string][]string{
		"oracle":  append([]string{"--agent", "oracle", "--threshold", "meanScore=0.5"}, tickets...),
		"noop":    append([]string{"--agent", "noop", "--threshold", "meanScore=0.5"}, tickets...),
		"apart":   {"ticket-resolve", "--scenario", "B06", "--agent", "heuristic"},
		"another": {"ticket-classify", "--scenario", "B06", "--agent", "heuristic"},
	})
	id := func(name string) string { return url.QueryEscape(strings.TrimPrefix(paths[name], "/runs/")) }
	for name, tt := range map[string]struct {
		path   string
		public bool
		status int
		want   []string
		not    []string
	}{
		"a run": {paths["oracle"], false, 200, []string{"<h1>oracle</h1>", `<span class="state good">Completed</span>`,
			`<span class="state good">met</span>`, paths["oracle"] + "/episodes",
			"passes both of two tries (pass^2)", "By category or family", `hx-sse:connect="` + paths["oracle"] + `/live"`, "/episodes?max=1.000&amp;min=0.980",
			"sha256:", `aria-label="pass rate from 0 to 1: this run 1.0000`,
			" the agent noop <b title=\"0.0000\">"}, []string{"<h2>Events</h2>", "style="}},
		"a run below its threshold": {paths["noop"], false, 200, []string{`<span class="state bad">missed</span>`,
			"meanScore is 0.0000, below 0.5", `<span class="state bad">ThresholdsMissed</span>`,
			`class="bound missed"`}, []string{`class="state good"`}},
		"a run in public": {paths["noop"], true, 200, []string{`<span class="state bad">missed</span>`},
			[]string{"/episodes", "below 0.5", "stored in", t.TempDir()}},
		"no run": {"/runs/_/nope", false, 404, []string{"There is no run nope"}, nil},
		"the leaderboard": {"/leaderboard", false, 200, []string{"<h2>ticket-resolve</h2>", "<h2>ticket-classify</h2>",
			"Apart, because they differ", `<option>Oracle</option>`, `<svg class="interval"`}, []string{"style="}},
		"the leaderboard of an agent": {"/leaderboard?agent=Oracle", true, 200, []string{">oracle</a>",
			`<option selected>Oracle</option>`}, []string{">noop</a>"}},
		"the leaderboard of a task": {"/leaderboard?task=ticket-classify", false, 200, []string{">another</a>"},
			[]string{">oracle</a>"}},
		"the leaderboard of no pool": {"/leaderboard?pool=x", false, 200, []string{"No complete run matches"},
			[]string{">oracle</a>", "Download"}},
		"labels that don't parse": {"/leaderboard?labels=" + url.QueryEscape(`a==="<script>`), false, 200,
			[]string{"doesn&#39;t select labels", "&lt;script&gt;"}, []string{"<script>", ">oracle</a>"}},
		"the leaderboard as CSV": {"/leaderboard?format=csv&agent=Oracle", true, 200,
			[]string{"basis,rank,run,agent,score", ",1,oracle,Oracle,1.0000"}, []string{"<", "noop"}},
		"the leaderboard as Markdown": {"/leaderboard?format=markdown", false, 200, []string{"| rank |"}, []string{"<html"}},
		"nothing compared":            {"/compare", false, 200, []string{"Choose two to six runs"}, []string{"/compare/live"}},
		"two runs": {"/compare?run=" + id("oracle") + "&run=" + id("noop"), false, 200, []string{
			"oracle is better (95 % interval", `>0, 3, 0</td>`, "minus oracle", `data-label="noop">-1.00 (-1.00 to -1.00)</td>`,
			paths["noop"] + "/episodes?scenario=B06&amp;task=ticket-resolve", `</a><br><span class="soft" dir="auto">`, ">1.0000<"}, []string{"style="}},
		"two transcripts": {"/compare/episodes?run=" + id("oracle") + "&run=" + id("noop") + "&task=ticket-resolve&scenario=B06&trial=1",
			false, 200, []string{`id="a-step-1"`, `id="b-step-1"`, "Trial 1", `<h1><span dir="auto">`, ">oracle</a>: 1.0000", "Lost: no reply to the customer"}, nil},
		"two transcripts without a scenario": {"/compare/episodes?run=" + id("oracle") + "&run=" + id("noop"), false, 400,
			[]string{"choose a scenario on the page Compare"}, nil},
		"public updates of a comparison": {"/compare/live", true, 403, []string{"Forbidden"}, nil},
		"public updates of episodes":     {paths["noop"] + "/episodes/live", true, 403, []string{"Forbidden"}, nil},
		"public transcripts":             {"/compare/episodes", true, 403, []string{"shows aggregated figures only"}, nil},
		"runs that differ": {"/compare?run=" + id("oracle") + "&run=" + id("another"), false, 200,
			[]string{"their tasks differ: ticket-resolve and ticket-classify", "Compare them anyway"}, []string{"<h2>"}},
		"runs that differ, by force": {"/compare?force=1&run=" + id("oracle") + "&run=" + id("another"), false, 200,
			[]string{"have no scenario in common"}, []string{"Compare them anyway"}},
		"a run that is gone":       {"/compare?run=x&run=y", false, 404, []string{"There is no run"}, nil},
		"a public comparison":      {"/compare", true, 403, []string{"shows aggregated figures only"}, nil},
		"a page that is not there": {"/nope", false, 404, []string{"There is no page /nope"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			shows := *s
			shows.public = tt.public
			w := get(&shows, tt.path)
			text := w.Body.String()
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(text, not) {
					t.Errorf("%q in\n%s", not, text)
				}
			}
		})
	}
}

// A static page has no forms, scripts or updates.
func TestStaticPagesOfFigures(t *testing.T) {
	s, paths := played(t, map[string][]string{"oracle": {"ticket-resolve", "--scenario", "B06", "--agent", "oracle"}})
	s.pages.Static = true
	for _, path := range []string{paths["oracle"], "/leaderboard"} {
		text := get(s, path).Body.String()
		for _, not := range []string{"<form", "<script", "hx-", "format=csv"} {
			if strings.Contains(text, not) || !strings.Contains(text, "oracle") {
				t.Errorf("%s has %s:\n%s", path, not, text)
			}
		}
	}
}

// The template "live" renders the data of each page.
func TestLiveFigures(t *testing.T) {
	s, paths := played(t, map[string][]string{"oracle": {"ticket-resolve", "--scenario", "B06", "--agent", "oracle"}})
	id := strings.TrimPrefix(paths["oracle"], "/runs/")
	namespace, run, _ := strings.Cut(id, "/")
	for want, show := range map[string]func(*http.Request) (shown, error){
		"Provenance": s.run, "<h2>ticket-resolve</h2>": s.leaderboard, "oracle minus oracle": s.compare,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?run="+id+"&run="+id, nil)
		r.SetPathValue("namespace", namespace)
		r.SetPathValue("run", run)
		found, err := show(r)
		if err != nil {
			t.Fatal(err)
		}
		if part, err := s.pages.Part(found.template, "live", found.main); err != nil ||
			!strings.Contains(string(part), want) || strings.Contains(string(part), "<h1>") {
			t.Errorf("no %q, %v:\n%s", want, err, part)
		}
	}
}

// A page shows the greatest differences, whichever run is better, and leads to the others.
func TestLongComparisons(t *testing.T) {
	scores := make([][]score.ScenarioScore, 3)
	for i := range int64(comparedRows + 50) {
		row := score.ScenarioScore{Task: "t", Scenario: fmt.Sprintf("%03d", i), Mean: i}
		scores[i%2] = append(scores[i%2], row)
		row.Mean = 0
		scores[2] = append(scores[2], row)
	}
	for _, tt := range []struct {
		query, all string
		rows       int
		last       string
	}{
		{"run=x&run=y&run=z", "/compare?all=1&run=x&run=y&run=z", comparedRows, "050"},
		{"run=x&run=y&run=z&all=1", "", comparedRows + 49, "001"},
	} {
		q, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		p := comparePage{Chosen: []comparedRun{{Name: "x"}, {Name: "y"}, {Name: "z"}}}
		p.addRows(q, scores, func(_, scenario string) string { return "about " + scenario })
		if len(p.Rows) != tt.rows || p.All != tt.all || p.More != 49 || p.Rows[0].Title != "about 249" ||
			p.Rows[1].Scenario != "248" || p.Rows[len(p.Rows)-1].Scenario != tt.last || p.Rows[0].Cells[0].Points != "" {
			t.Errorf("%s: %d rows, %d more at %q: %+v", tt.query, len(p.Rows), p.More, p.All, p.Rows[0])
		}
	}
}
