package ui

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/web/page"
)

// cells returns the texts of the cells of each row of a page's tables, by the name of its run.
func cells(html string) map[string][]string {
	markup := regexp.MustCompile(`<[^>]*>`)
	rows := map[string][]string{}
	for row := range strings.SplitSeq(html, "<tr") {
		_, name, found := strings.Cut(row, `<th scope="row"><a`)
		if !found {
			continue
		}
		_, name, _ = strings.Cut(name, ">")
		name, _, _ = strings.Cut(name, "</a>")
		parts := strings.Split(row, "<td")[1:]
		for i, part := range parts {
			part, _, _ = strings.Cut(part, "</td>")
			_, text, _ := strings.Cut(part, ">")
			parts[i] = strings.TrimSpace(markup.ReplaceAllString(text, ""))
		}
		rows[markup.ReplaceAllString(name, "")] = parts
	}
	return rows
}

// Runs with prices have a cost; without prices or tokens it is a dash, not a zero.
func TestUsage(t *testing.T) {
	from, _ := played(t, map[string][]string{"played": {"ticket-resolve", "--scenario", "B06", "--agent", "oracle"}})
	all, err := from.sources.runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tokens := &v1alpha1.Tokens{Prompt: 2_000_000, Completion: 500_000}
	prices := &v1alpha1.Prices{Input: "0.15", Output: "0.6"}
	var runs []*source.LoadedRun
	for name, used := range map[string]*v1alpha1.Tokens{"priced": tokens, "unpriced": tokens, "without-tokens": nil} {
		run := all[0].DeepCopy()
		run.Name, run.UID = name, "01234567-"
		if name != "unpriced" {
			run.Spec.Prices = prices
		}
		run.Status.Tokens, run.Status.Cost = used, evaluation.FormatCost(run.Spec.Prices, used)
		run.Status.Durations = &v1alpha1.Durations{EpisodeP50: "1.250", EpisodeP99: "2.000"}
		loaded := *all[0]
		loaded.EvaluationRun = run
		runs = append(runs, &loaded)
	}
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{pages: pages, sources: holding(runs)}
	s.sources.vouchers = from.sources.vouchers
	want := map[string][]string{"priced": {"2,500,000", "0.6000"}, "unpriced": {"2,500,000", "–"},
		"without-tokens": {"–", "–"}}
	for path, duration := range map[string]string{"/?columns=tokens,cost,duration": "–", "/leaderboard": "1.250 s"} {
		rows := cells(get(s, path).Body.String())
		for name, figures := range want {
			if got := strings.Join(rows[name], "|") + "|"; !strings.Contains(got, strings.Join(append(figures, duration), "|")+"|") {
				t.Errorf("%s: %s has %q, want %q and %s", path, name, rows[name], figures, duration)
			}
		}
	}
	var order []string
	sorted := get(s, "/?sort=-cost").Body.String()
	for name := range want {
		order = append(order, name)
	}
	slices.SortFunc(order, func(a, b string) int {
		return strings.Index(sorted, ">"+a+"<") - strings.Index(sorted, ">"+b+"<")
	})
	if order[0] != "priced" {
		t.Errorf("by cost, the dearest first: %v", order)
	}
}

// The pages of runs say how many answers were no action and how many replies were not judged.
func TestTroubleOnPages(t *testing.T) {
	s, paths := played(t, map[string][]string{"played": {"ticket-resolve", "--scenario", "B06", "--agent", "oracle"}})
	all, err := s.sources.runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all[0].Status.Answers = &v1alpha1.RunAnswers{Total: 40, NoAction: 2, NoActionPercent: "5.0"}
	all[0].Status.Replies = &v1alpha1.RunReplies{NotJudged: 3, Provoking: 1}
	const cell = "5.0 % no action, 3 not judged, 1 provoking"
	id := newComparedRun(all[0]).ID
	for path, want := range map[string]string{"/": cell, "/leaderboard": cell, "/compare?run=" + id + "&run=" + id: cell,
		paths["played"]: "2 of 40 answers of the agent (5.0 %) were no action."} {
		if text := get(s, path).Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s doesn't say %q", path, want)
		}
	}
}
