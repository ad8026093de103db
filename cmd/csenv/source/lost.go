package source

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

// The kinds of reasons for which points are lost. The points of criteria, invented values and gates
// are parts of those of a dimension.
const (
	LostDimension = "dimension"
	LostCriterion = "criterion"
	LostGate      = "gate"
)

const (
	// invented is the criterion of values without support.
	invented = "invented values"
	// maxReasons bounds the reasons of a run, maxReason the bytes of one. Records can name any.
	maxReasons = 500
	maxReason  = 80
)

// Lost are points that an episode lost for a reason, in milli-points. Reason is the task, a kind
// and a name, separated by slashes.
type Lost struct {
	Reason string
	Points int64
}

// LostPoints are the points that the episodes of a run lost for a reason.
type LostPoints struct {
	Task string `json:"task"`
	// Kind is dimension, criterion or gate.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Episodes is the number of episodes that lost points, Points their sum in milli-points.
	Episodes int64 `json:"episodes"`
	Points   int64 `json:"milliPoints"`
}

// Reason identifies the reason in an index.
func (l LostPoints) Reason() string { return l.Task + "/" + l.Kind + "/" + l.Name }

// verdict has the parts of a grader.Verdict that say what was lost. The others are most of its
// text.
type verdict struct {
	Criteria []struct {
		ID      string `json:"id"`
		Earned  int64  `json:"earned"`
		Offered int64  `json:"offered"`
	} `json:"criteria"`
	Invented []string      `json:"invented"`
	Gates    []grader.Gate `json:"gates"`
	PreGate  int64         `json:"preGate"`
	PostGate int64         `json:"postGate"`
}

// listLostPoints lists what an episode lost, by the dimensions that count and the recorded
// verdicts.
func listLostPoints(e record.Episode, task string, dimensions []score.Dimension) []Lost {
	points := map[string]int64{}
	add := func(kind, name string, n int64) {
		name = strings.ToValidUTF8(name[:min(len(name), maxReason)], "")
		if n > 0 && name != "" {
			points[task+"/"+kind+"/"+name] += n
		}
	}
	for _, d := range dimensions {
		add(LostDimension, d.Name, d.Offered-d.Earned)
	}
	// The last verdict on a ticket is the one that counts.
	last := map[string]verdict{}
	for _, text := range e.Verdicts {
		var v struct {
			TicketID string `json:"ticket_id"`
			verdict
		}
		if json.Unmarshal(text, &v) == nil && len(v.Criteria) > 0 {
			last[v.TicketID] = v.verdict
		}
	}
	for _, v := range last {
		var earned int64
		for _, c := range v.Criteria {
			earned += c.Earned
			add(LostCriterion, nameCriterion(c.ID), c.Offered-c.Earned)
		}
		if len(v.Invented) > 0 {
			add(LostCriterion, invented, earned-v.PreGate)
		}
		if len(v.Gates) > 0 {
			lowest := slices.MinFunc(v.Gates, func(a, b grader.Gate) int { return cmp.Compare(a.Cap, b.Cap) })
			add(LostGate, lowest.ID, v.PreGate-v.PostGate)
		}
	}
	return view.MapItems(view.SortedKeys(points), func(reason string) Lost { return Lost{reason, points[reason]} })
}

// nameCriterion names a criterion of a reply, or the kind of a step: steps are numbered by
// scenario.
func nameCriterion(id string) string {
	number, step, isStep := strings.Cut(id, " ")
	if isStep && strings.HasPrefix(number, "s") && strings.Trim(number[1:], "0123456789") == "" {
		return step
	}
	return grader.Criterion{ID: id}.Title()
}

// tally sums up the points that are lost for a reason.
type tally struct{ Episodes, Points int64 }
