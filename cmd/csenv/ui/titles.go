package ui

import (
	"strings"

	"github.com/csenv/csenv/cmd/csenv/index"
)

// maxTitle bounds the characters of a title.
const maxTitle = 90

// titleOf is what a scenario is about with a seed's values: the subject of a ticket, or the first
// line of a request. It is "" for a scenario that the catalogue doesn't have, such as a queue.
func (s *site) titleOf(scenario string, seed int64) string {
	if s.catalog == nil {
		return ""
	}
	if t, known := s.catalog.Ticket(scenario); known {
		if drawn, err := t.Instantiate(seed); err == nil {
			return firstLine(drawn.Subject)
		}
	}
	if w, known := s.catalog.Workflow(scenario); known {
		if drawn, err := w.Instantiate(seed); err == nil {
			return firstLine(drawn.Query)
		}
	}
	return ""
}

// firstLine is the beginning of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > maxTitle {
		return string(runes[:maxTitle-1]) + "…"
	}
	return line
}

// numbered is an episode with its trial counted from 1.
func numbered(e index.Episode) index.Episode {
	e.Trial++
	return e
}
