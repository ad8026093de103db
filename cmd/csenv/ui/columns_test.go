package ui

import (
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/web/page"
)

// The columns of the table of runs are chosen by the address, which all its links keep.
func TestColumns(t *testing.T) {
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "12345678-1"}}
	run.Status.Tasks = []v1alpha1.TaskResult{{Name: "t", Dimensions: []v1alpha1.DimensionResult{
		{Name: "reply", Mean: "0.2500", Max: "0.5000"}, {Name: "category", Mean: "0.1000", Max: "0.1000"}}}}
	s := &site{pages: pages, sources: holding([]*source.LoadedRun{{EvaluationRun: run}})}
	header := regexp.MustCompile(`<th scope="col"[^>]*>(?:<a href="([^"]*)">)?([^<↑↓]*)`)
	cell := regexp.MustCompile(`<td data-label="([^"]*)"`)
	for _, tt := range []struct {
		query, kept string
		labels      []string
	}{
		{"", "", []string{"Run", "State", "Agent", "Task", "Episodes", "Score", "95 % interval", "Pass rate",
			"Created"}},
		{"columns=cost,state", "columns=run%2Cstate%2Ccost", []string{"Run", "State", "Cost"}},
		{"columns=run&columns=created&columns=score&sort=-score", "columns=run%2Cscore%2Ccreated",
			[]string{"Run", "Score", "Created"}},
		{"columns=run", "columns=run", []string{"Run"}},
		{"columns=state,agent,task,episodes,score,interval,passed,answers,tokens,cost,duration,created", "columns=run",
			[]string{"Run", "State", "Agent", "Task", "Episodes", "Score", "95 % interval", "Pass rate", "Answers",
				"Tokens", "Cost", "Duration", "Created"}},
		{"columns=points:reply,score", "columns=run%2Cscore%2Cpoints%3Areply", []string{"Run", "Score", "Points: reply"}},
	} {
		w := get(s, "/?"+tt.query)
		text := w.Body.String()
		_, table, _ := strings.Cut(text, `aria-label="Runs"`)
		var labels []string
		for _, m := range header.FindAllStringSubmatch(table, -1) {
			if label := strings.TrimSpace(m[2]); label != "" {
				labels = append(labels, label)
			}
			if link := html.UnescapeString(m[1]); link != "" && (!strings.Contains(link, tt.kept) ||
				tt.kept == "" && strings.Contains(link, "columns")) {
				t.Errorf("%s: the link %s doesn't keep %q", tt.query, link, tt.kept)
			}
		}
		if !slices.Equal(labels, tt.labels) {
			t.Errorf("%s: columns %q, want %q", tt.query, labels, tt.labels)
		}
		if row := cells(table)["one"]; len(row) != len(tt.labels) { // without the name, with the box to compare
			t.Errorf("%s: cells %q under %q", tt.query, row, labels)
		}
		_, first, _ := strings.Cut(table, "<tbody>")
		first, _, _ = strings.Cut(first, "</tr>")
		under := []string{"Run"}
		for _, m := range cell.FindAllStringSubmatch(first, -1) {
			under = append(under, html.UnescapeString(m[1]))
		}
		if !slices.Equal(under, labels) {
			t.Errorf("%s: cells of %q under %q", tt.query, under, labels)
		}
		if checked := strings.Count(text, " checked>"); checked != len(tt.labels)-1 {
			t.Errorf("%s: %d boxes are ticked", tt.query, checked)
		}
	}
	if text := get(s, "/?columns=points:reply").Body.String(); !strings.Contains(text, ">0.2500 of 0.5000</td>") {
		t.Errorf("the points of a dimension aren't shown: %s", text)
	}
	if w := get(s, "/?columns=mood"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "has no column") {
		t.Errorf("an unknown column: %d", w.Code)
	}
}
