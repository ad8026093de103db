package workflow

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
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
	orders(steps, nil, func(order []scenarios.WorkflowStep) {
		if first == nil {
			first = slices.Clone(order)
		}
	})
	return first
}

// TestReferences sends every reference reply at the end of gold: the good ones resolve the issue
// and the bad ones don't.
func TestReferences(t *testing.T) {
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		for _, text := range w.References.Good {
			if final := withReply(t, kind, w, text); final.Score != score.One {
				stated := kind.reader.ReadMessage(w, text)
				t.Errorf("score %d, facts %v: %s\n%s", final.Score, stated, text, mustJSON(w.Facts))
			}
		}
		for _, bad := range w.References.Bad {
			if final := withReply(t, kind, w, bad.Text); final != nil && final.Dimensions[1].Earned > bad.Max {
				t.Errorf("a bad reply (%s) earns %d of at most %d: %s", bad.Why, final.Dimensions[1].Earned, bad.Max, bad.Text)
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
