package ui

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/cmd/csenv/index"
)

// A search finds runs and episodes of all runs by what they have, and says so if there are more.
func TestSearch(t *testing.T) {
	s, paths := played(t, map[string][]string{
		"first-heuristic": {"ticket-resolve", "--scenario", "B06,B07", "--agent", "heuristic"},
		"second-noop":     {"ticket-resolve", "--scenario", "B07,S03", "--agent", "noop", "--trials", "2"},
	})
	link := regexp.MustCompile(`<a data-row href="([^"]*)"`)
	for name, tt := range map[string]struct {
		q        string
		runs     []string
		episodes map[string]string // the scenarios of the episodes of each run
		not      string
	}{
		"the id of a scenario": {"b07", nil, map[string]string{"first-heuristic": "B07", "second-noop": "B07 B07"}, "matches"},
		"words of its title":   {"seat coun", nil, map[string]string{"first-heuristic": "B07", "second-noop": "B07 B07"}, ""},
		"a run":                {"second", []string{"second-noop"}, nil, "There are more"},
		"runs":                 {"first heur", []string{"first-heuristic"}, nil, ""},
		"a scenario in a run":  {"seco b07", nil, map[string]string{"second-noop": "B07 B07"}, ""},
		"a part of an id":      {"s0", nil, map[string]string{"second-noop": "S03 S03"}, ""},
		"no word":              {" ., ", nil, nil, "data-row"},
		"syntax":               {`" OR (* NEAR`, nil, nil, "There are more"},
		"markup":               {"<script>alert(1)</script>", nil, nil, "<script>alert"},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(s, "/search?q="+url.QueryEscape(tt.q))
			text := w.Body.String()
			if w.Code != 200 || tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("status %d, %q is in\n%s", w.Code, tt.not, text)
			}
			_, found, _ := strings.Cut(text, "<h1>Search</h1>")
			listed, table, _ := strings.Cut(found, "<h2>Episodes</h2>")
			for run, path := range paths {
				if shown := strings.Contains(listed, `href="`+path+`"`); shown != slices.Contains(tt.runs, run) {
					t.Errorf("run %s is shown: %v", run, shown)
				}
				var scenarios []string
				for _, m := range link.FindAllStringSubmatch(table, -1) {
					if !strings.HasPrefix(m[1], path+"/") {
						continue
					}
					if answer := get(s, m[1]); answer.Code != 200 {
						t.Errorf("%s: status %d", m[1], answer.Code)
					} else if _, rest, ok := strings.Cut(answer.Body.String(), ">scenario "); ok {
						scenario, _, _ := strings.Cut(rest, "<")
						scenarios = append(scenarios, scenario)
					}
				}
				if got := strings.Join(scenarios, " "); got != tt.episodes[run] {
					t.Errorf("episodes of %s: %q, want %q", run, got, tt.episodes[run])
				}
			}
		})
	}
	if text := get(s, "/search?q=facts").Body.String(); !strings.Contains(text, "data-row") {
		t.Errorf("no episode lost points for its facts:\n%s", text)
	}
	if code := get(s, "/search?q="+strings.Repeat("x", index.MaxText+1)).Code; code != 400 {
		t.Errorf("a long text: status %d", code)
	}
	box := `action="/search"`
	if !strings.Contains(get(s, "/").Body.String(), box) {
		t.Error("the overview has no search")
	}
	s.public = true
	if code := get(s, "/search?q=b07").Code; code != 403 || strings.Contains(get(s, "/").Body.String(), box) {
		t.Errorf("in public: status %d, or the overview has a search", code)
	}
}

// A search without stores, whose episodes it finds, says what to do.
func TestSearchWithoutStores(t *testing.T) {
	if w := get(episodeSite(t), "/search?q=b07"); w.Code != 404 || !strings.Contains(w.Body.String(), "with --results") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
