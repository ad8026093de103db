package figures

import (
	"strings"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// maxTitle bounds the characters of a title.
const maxTitle = 90

// TitleOf is what a scenario is about with a seed's values: the subject of a ticket, or the first
// line of a request. It is "" for a scenario that the catalogue doesn't have, such as a queue.
func TitleOf(catalog *scenarios.Catalog, scenario string, seed int64) string {
	if catalog == nil {
		return ""
	}
	if t, known := catalog.Ticket(scenario); known {
		if drawn, err := t.Instantiate(seed); err == nil {
			return firstLine(drawn.Subject)
		}
	}
	if w, known := catalog.Workflow(scenario); known {
		if drawn, err := w.Instantiate(seed); err == nil {
			return firstLine(drawn.Query)
		}
	}
	return ""
}

// PlannedTitle is what a scenario is about in the first trial of a run.
func PlannedTitle(catalog *scenarios.Catalog, run *source.LoadedRun, task, scenario string) string {
	seed := ptr.Deref(ptr.Deref(run.Status.Provenance, v1alpha1.Provenance{}).Seed, 0)
	return TitleOf(catalog, scenario, score.EpisodeSeed(seed, task, scenario, 0))
}

// firstLine is the beginning of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > maxTitle {
		return string(runes[:maxTitle-1]) + "…"
	}
	return line
}
