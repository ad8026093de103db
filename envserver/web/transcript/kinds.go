package transcript

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/scenarios"
)

// Kinds returns the environments in which recorded episodes are played again. It is not safe for
// concurrent use.
type Kinds struct {
	// Judge judges the replies of all episodes. If it is nil, each episode has its recorded
	// verdicts.
	Judge grader.Judge

	catalog *scenarios.Catalog
	// shared are those that grade with Judge, or compare facts.
	shared map[string]episode.Kind
}

// NewKinds returns the environments that serve a catalogue, with the recorded verdicts.
func NewKinds(catalog *scenarios.Catalog) *Kinds {
	return &Kinds{catalog: catalog, shared: map[string]episode.Kind{}}
}

// For returns the environment of an episode.
func (k *Kinds) For(e record.Episode) (kind episode.Kind, err error) {
	if k.Judge == nil && strings.HasPrefix(e.Judge, "llm:") {
		kept := make([]grader.Verdict, len(e.Verdicts))
		for i, raw := range e.Verdicts {
			if err := json.Unmarshal(raw, &kept[i]); err != nil {
				return nil, fmt.Errorf("reading a verdict: %w", err)
			}
		}
		return NewKind(k.catalog, e.Environment, llm.NewReplay(offline.New(), e.Judge, kept...))
	}
	if kind = k.shared[e.Environment]; kind == nil {
		if kind, err = NewKind(k.catalog, e.Environment, k.Judge); err == nil {
			k.shared[e.Environment] = kind
		}
	}
	return kind, err
}
