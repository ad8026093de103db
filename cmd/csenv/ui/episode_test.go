package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/scenarios"
)

// attack has a script, a terminal escape and a change of direction.
const attack = "<script>alert(1)</script>\" onload=\"x\x1b[2J\u202e'; rm -rf ~ '"

func episodeSite(t *testing.T) *site {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	return &site{pages: pages, sources: &sources{}, catalog: catalog, log: slog.New(slog.DiscardHandler)}
}

// runOf is a run with episodes.
func runOf(episodes ...record.Episode) *source.LoadedRun {
	run := &v1alpha1.EvaluationRun{}
	run.Name, run.UID = "gpt", "0123456789"
	run.Status.Results = "results/it's"
	return &source.LoadedRun{EvaluationRun: run, Episodes: func(context.Context) iter.Seq2[record.Episode, error] {
		return func(yield func(record.Episode, error) bool) {
			for _, e := range episodes {
				if !yield(e, nil) {
					return
				}
			}
		}
	}}
}

func episodeHTML(t *testing.T, s *site, run *source.LoadedRun, e record.Episode, from int, query string) string {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.episodeOf(t.Context(), run, e, from, values)
	if err != nil {
		t.Fatal(err)
	}
	html, err := s.pages.Page(found.template, s.layout(t.Context(), found))
	if err != nil {
		t.Fatal(err)
	}
	return string(html)
}

func resolved(index int64, scenario string) record.Episode {
	points := 0.7
	return record.Episode{Index: index, Environment: "ticket", Task: "ticket-resolve", Scenario: scenario, Seed: 42,
		Turns: []record.Turn{{Action: json.RawMessage(`{"action_type":"classify","category":"billing"}`), Reward: 0.2},
			{Action: json.RawMessage(`{"action_type":"resolve","message":"It is refunded.",` +
				`"facts":[{"what":"refund_amount","value":"$<5>"}]}`), Reward: 0.5}},
		Grade: record.Grade{Outcome: score.Scored, Score: &points, Judge: "offline-v7",
			Dimensions: []score.Dimension{{Name: "category", Earned: 200, Offered: 200}}}}
}

func TestEpisodePage(t *testing.T) {
	s := episodeSite(t)
	run := runOf(resolved(4, "B01"), resolved(1, "B07"), resolved(2, "B02"), resolved(3, "B07"))
	for name, tt := range map[string]struct {
		query       string
		want, never []string
	}{
		"the conversation": {"", []string{"Episode 3: <span dir=\"auto\">Query on seat count, Ironbridge Cycles</span>", "scenario B07", "It is refunded.", ">category billing<", "score 0.7000, passes with 0.8",
			"2 steps of at most 10", `class="bubble agent"`, "&#43;0.500", "total 0.700", "Missed",
			`<dt>refund_amount</dt><dd dir="auto">$&lt;5&gt;</dd>`, "Lost: the reply doesn&#39;t state "}, []string{"f1", "no reply to the customer"}},
		"the grade in a list of one scenario": {"scenario=B07&q=ab",
			[]string{"escalation", "A good reply", "(money that goes back the way it was paid, now or already under way)", "priority not set, right: ",
				`href="/runs/_/gpt-01234567/episodes?q=ab&amp;scenario=B07"`, `href="/runs/_/gpt-01234567/episodes/3?q=ab&amp;scenario=B07"`},
			nil},
		"the record": {"tab=record", []string{`href="/play/?scenario=B07&amp;seed=42&amp;target=ticket&amp;task=ticket-resolve"`,
			`data-copy="csenv transcript --results &#39;results/it&#39;\&#39;&#39;s&#39; gpt 3"`, "offline-v7",
			`href="/runs/_/gpt-01234567/episodes/3/raw"`, "&#34;action_type&#34;"}, nil},
	} {
		html := episodeHTML(t, s, run, resolved(3, "B07"), 0, tt.query)
		for _, want := range tt.want {
			if !strings.Contains(html, want) {
				t.Errorf("%s: %s is missing in %s", name, want, html)
			}
		}
		for _, never := range tt.never {
			if strings.Contains(html, never) {
				t.Errorf("%s: %s is in %s", name, never, html)
			}
		}
	}
}

// Texts of a record can't become markup or control what displays them, on any tab.
func TestHostileEpisodes(t *testing.T) {
	s := episodeSite(t)
	encoded, err := json.Marshal(attack)
	if err != nil {
		t.Fatal(err)
	}
	text := string(encoded)
	hostile := record.Episode{Environment: attack, Task: attack, Scenario: attack, EpisodeID: attack, Run: attack,
		Receipt: attack, RewardMode: attack, Grade: record.Grade{Outcome: attack, Class: attack, Judge: attack,
			GraderVersion: attack, ScenarioDigest: attack, Dimensions: []score.Dimension{{Name: attack, Offered: 1}},
			Verdicts: []json.RawMessage{json.RawMessage(`{"criteria":[{"id":` + text + `,"reason":` + text +
				`,"evidence":[{"claim":` + text + `,"quote":` + text + `}]}],"invented":[` + text + `]}`),
				json.RawMessage(text)}}}
	for _, action := range []string{`{"action_type":` + text + `,"message":` + text + `,"x":{` + text + `:1}}`, text, "<script>",
		`{"action_type":"respond","message":` + text + `,"facts":[{"what":` + text + `,"value":` + text + `}]}`,
		`{"action_type":"respond","message":` + text + `,"facts":[{"what":"team","value":` + text + `}]}`,
		`{"action_type":"respond_user","payload":{"message":` + text + `}}`,
		`{"action_type":"check_order_status","payload":{"order_id":` + text + `}}`} {
		hostile.Turns = append(hostile.Turns, record.Turn{Action: json.RawMessage(action), Answer: record.Answer{Said: attack}, Refused: attack},
			record.Turn{Action: json.RawMessage(action)})
	}
	ticket, workflow := hostile, hostile
	ticket.Environment, ticket.Task, ticket.Scenario, ticket.RewardMode = "ticket", "ticket-resolve", "B07", ""
	workflow.Environment, workflow.Task, workflow.Scenario, workflow.RewardMode = "workflow", "refund", "C09", ""
	markup := regexp.MustCompile(`<script>| onload="|[\x00-\x08\x0b-\x1f\x7f\x{202a}-\x{202e}]`)
	for _, e := range []record.Episode{hostile, ticket, workflow} {
		for _, tab := range []string{"", "record", attack} {
			html := episodeHTML(t, s, runOf(e), e, 0, url.Values{"tab": {tab}, attack: {attack}}.Encode())
			if found := markup.FindString(html); found != "" {
				t.Errorf("%s, tab %s: %q", e.Environment, tab, found)
			}
		}
	}
}

// The first page of a long episode is small, and its other steps are on pages that it links.
func TestLongEpisode(t *testing.T) {
	const mebibyte = 1 << 20
	s := episodeSite(t)
	e := resolved(0, "B07")
	for i := len(e.Turns); i < 10_000; i++ {
		e.Turns = append(e.Turns, record.Turn{Action: json.RawMessage(`{"action_type":"respond","message":"Hello."}`)})
	}
	e.Turns[1].Said = strings.Repeat("x", mebibyte)
	for _, tt := range []struct {
		from        int
		want, never []string
	}{
		{0, []string{`id="step-0"`, `id="step-200"`, `id="step-9991"`, `href="/runs/_/gpt-01234567/episodes/0?from=201#steps"`,
			"Steps 201 to 400", "1028576 more characters", "the record has all"}, []string{`id="step-201"`, `id="step-9990"`}},
		{9_801, []string{`id="step-9801"`, `id="step-10000"`, "?from=9601"}, []string{`id="step-9800"`, "→</a>\n</nav>\n<ol"}},
	} {
		began := time.Now()
		html := episodeHTML(t, s, runOf(e), e, tt.from, "")
		t.Logf("from step %d: %d bytes in %v", tt.from, len(html), time.Since(began))
		if len(html) > mebibyte/2 {
			t.Errorf("the page has %d bytes", len(html))
		}
		for _, want := range tt.want {
			if !strings.Contains(html, want) {
				t.Errorf("from %d: %s is missing", tt.from, want)
			}
		}
		for _, never := range tt.never {
			if strings.Contains(html, never) {
				t.Errorf("from %d: %s is shown", tt.from, never)
			}
		}
	}
}

func TestShell(t *testing.T) {
	for want, arguments := range map[string][]string{
		"csenv transcript B07": {"B07"}, "csenv transcript ''": {""}, "csenv transcript -- -x": {"-x"}, `csenv transcript 'it'\''s'`: {"it's"},
		"csenv transcript '$(rm -rf ~) `a` ; b'": {"$(rm -rf ~)\n`a`\r\n; b"},
	} {
		if got := quoteCommand([]string{"csenv", "transcript"}, arguments...); got != want {
			t.Errorf("%q: %s, want %s", arguments, got, want)
		}
	}
}

// The public site has neither episodes nor records, and numbers of other kinds are refused.
func TestEpisodeRoutes(t *testing.T) {
	public := episodeSite(t)
	public.public = true
	for path, want := range map[string]int{"": 403, "/raw": 404} {
		w := httptest.NewRecorder()
		public.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET",
			"/runs/_/gpt-01234567/episodes/1"+path, nil))
		if w.Code != want || strings.Contains(w.Body.String(), "action_type") {
			t.Errorf("public %s: %d, want %d", path, w.Code, want)
		}
	}
	for path, want := range map[string]int{"x": 404, "1?from=x": 400, "99999999999999999999/raw": 404} {
		w := httptest.NewRecorder()
		episodeSite(t).handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET",
			fmt.Sprintf("/runs/_/gpt-01234567/episodes/%s", path), nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
