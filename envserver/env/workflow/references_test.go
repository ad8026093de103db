package workflow

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// withReply plays gold with another last message.
func withReply(t *testing.T, kind *Kind, w *scenarios.Workflow, text string) *episode.Final {
	t.Helper()
	other := *w
	other.References.Good = []string{text}
	return playAll(t, kind, &other, inOrder(w.Steps))
}

// inOrder returns the first order of the steps in which each follows its prerequisites.
func inOrder(steps []scenarios.WorkflowStep) []scenarios.WorkflowStep {
	var first []scenarios.WorkflowStep
	for range steps {
		next := slices.IndexFunc(steps, func(s scenarios.WorkflowStep) bool { return isNext(first, s) })
		first = append(first, steps[next])
	}
	return first
}

// TestReferences sends every good reply at the end of gold: each resolves the issue.
func TestReferences(t *testing.T) {
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		for _, text := range w.References.Good {
			if final := withReply(t, kind, w, text); final.Score != score.One {
				stated := kind.reader.Tell(w, text, facts.Stated(w.Required()))
				t.Errorf("score %d, facts %v: %s\n%s", final.Score, stated, text, mustJSON(w.Facts))
			}
		}
		if len(w.References.Good) < 3 || len(w.References.Bad) < 3 {
			t.Errorf("%d good and %d bad replies, want at least 3 of each", len(w.References.Good),
				len(w.References.Bad))
		}
	})
}

func mustJSON(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}
