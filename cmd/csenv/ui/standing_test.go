package ui

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/index"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/web/page"
)

// Runs that lack episodes are under way while their store grows, and interrupted otherwise; those
// with slow episodes may pause longer.
func TestStanding(t *testing.T) {
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	s := &site{pages: pages, sources: holding(nil)}
	s.sources.stored.byID = map[string]index.StoredRun{}
	add := func(name, reason string, begun, newest time.Duration, p99 v1alpha1.Decimal) {
		run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "12345678-1",
			CreationTimestamp: metav1.NewTime(time.Now().Add(-begun))}}
		run.Status.Episodes = &v1alpha1.RunEpisodes{Total: 9, Scored: 4}
		if p99 != "" {
			run.Status.Durations = &v1alpha1.Durations{EpisodeP50: "1.000", EpisodeP99: p99}
		}
		complete := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: reason}
		if reason == v1alpha1.ReasonCompleted {
			complete.Status = metav1.ConditionTrue
		}
		run.Status.Conditions = []metav1.Condition{complete}
		loaded := &source.LoadedRun{EvaluationRun: run}
		made := index.StoredRun{ID: name, LoadedRun: loaded}
		if newest > 0 {
			made.Newest = time.Now().Add(-newest)
		}
		s.sources.stored.runs = append(s.sources.stored.runs, loaded)
		s.sources.stored.byID[runID(run)] = made
	}
	add("finished", v1alpha1.ReasonCompleted, 4*day, day, "2.000")
	add("left", v1alpha1.ReasonRunning, 5*day, day, "2.000")
	add("grows", v1alpha1.ReasonRunning, 2*day, time.Minute, "2.000")
	add("pauses", v1alpha1.ReasonRunning, 3*day, 2*time.Hour, "3600.000")
	add("begins", v1alpha1.ReasonRunning, time.Minute, 0, "")
	add("never-began", v1alpha1.ReasonRunning, day, 0, "")

	name := regexp.MustCompile(`<th scope="row"><a href="[^"]*">([^<]*)</a>`)
	names := func(path string) []string {
		var found []string
		for _, m := range name.FindAllStringSubmatch(get(s, path).Body.String(), -1) {
			found = append(found, m[1])
		}
		return found
	}
	if got := names("/"); !slices.Equal(got, []string{"begins", "grows", "pauses", "never-began", "finished", "left"}) {
		t.Errorf("runs in the order %v", got)
	}
	for query, want := range map[string][]string{"state=under-way": {"begins", "grows", "pauses"},
		"state=Interrupted": {"never-began", "left"}, "state=Completed": {"finished"}} {
		if got := names("/?" + query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	const advice = "The same csenv eval command"
	for run, message := range map[string]string{
		"left":  "5 of 9 episodes are not stored, and the store last grew 24h0m0s ago",
		"grows": "5 of 9 episodes are still to be stored.",
	} {
		text := get(s, runPath(s.sources.stored.byID[run+"-12345678"].LoadedRun)).Body.String()
		if !strings.Contains(text, message) || !strings.Contains(get(s, "/").Body.String(), message) {
			t.Errorf("%s: no %q in its row or in\n%s", run, message, text)
		}
		if advised := strings.Contains(text, advice); advised != (run == "left") {
			t.Errorf("%s: to be played again: %v", run, advised)
		}
	}
}
