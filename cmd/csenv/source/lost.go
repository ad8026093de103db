package source

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

const (
	// noReply is the part of tickets that the agent didn't answer.
	noReply = "no reply"
	// penalties is the dimension of criteria with an action.
	penalties = "penalties"
	// maxReasons bounds the reasons of a run, maxReason the bytes of one. Records can name any.
	maxReasons = 500
	maxReason  = 80
)

// Lost are points that an episode lost for a reason, in milli-points. Reason is LostPoints.Reason.
type Lost struct {
	Reason string
	Points int64
}

// LostPoints are the points that the episodes of a run lost for a reason.
type LostPoints struct {
	Task string `json:"task"`
	// Dimension is that in which the points were lost. Part is what of it lost them: a criterion, a
	// limit or an action, and "" for all of the dimension. If parts are known, they add up to it.
	Dimension string `json:"dimension"`
	Part      string `json:"part,omitempty"`
	// Episodes is the number of episodes that lost points, Points their sum in milli-points.
	Episodes int64 `json:"episodes"`
	Points   int64 `json:"milliPoints"`
}

// Reason identifies the reason in an index.
func (l LostPoints) Reason() string { return l.Task + "/" + l.Dimension + "/" + l.Part }

// Name names the reason.
func (l LostPoints) Name() string { return cmp.Or(l.Part, l.Dimension) }

// verdict has the parts of a grader.Verdict that say what was lost. The others are most of its
// text.
type verdict struct {
	Criteria []struct {
		ID      string `json:"id"`
		Action  string `json:"action"`
		Earned  int64  `json:"earned"`
		Offered int64  `json:"offered"`
	} `json:"criteria"`
	Gates    []grader.Gate `json:"gates"`
	PreGate  int64         `json:"preGate"`
	PostGate int64         `json:"postGate"`
}

// listLostPoints lists what an episode lost, by the dimensions that count and the recorded
// verdicts.
func listLostPoints(e record.Episode, planned score.PlannedEpisode, dimensions []score.Dimension) []Lost {
	task := planned.Task
	parts, points := listParts(e, task), map[string]int64{}
	for _, d := range dimensions {
		lost := d.Offered - d.Earned
		if d.Name == "steps" && lost > 0 {
			lost = min(lost, payRequired(planned, d.Offered)-d.Earned)
		}
		if lost <= 0 {
			continue
		}
		points[task+"/"+d.Name+"/"] += lost
		shareOut(parts[d.Name], lost, func(part string, n int64) { points[task+"/"+d.Name+"/"+part] += n })
	}
	return view.MapItems(view.SortedKeys(points), func(reason string) Lost { return Lost{reason, points[reason]} })
}

// payRequired returns what the steps pay that a built-in workflow requires, or else what was
// offered: without a right reply that is more. Generated cases offer what they require.
func payRequired(e score.PlannedEpisode, offered int64) int64 {
	if known, _ := tasks.Find(e.Task); known.Generated {
		return offered
	}
	public, err := scenarios.LoadPublic()
	if err != nil {
		return offered
	}
	if scenario, ok := public.Workflow(e.Scenario); ok {
		if w, err := scenario.Instantiate(e.Seed); err == nil {
			return workflow.PayRequired(w)
		}
	}
	return offered
}

// shareOut divides what a dimension lost among its parts, in proportion: a queue's dimensions are
// means over its tickets, whose weights a record doesn't have.
func shareOut(parts map[string]int64, lost int64, add func(part string, n int64)) {
	var all, before int64
	for _, n := range parts {
		all += n
	}
	for _, part := range view.SortedKeys(parts) {
		add(part, lost*(before+parts[part])/all-lost*before/all)
		before += parts[part]
	}
}

// listParts sums up what the verdicts of an episode say was lost, by dimension and part.
func listParts(e record.Episode, task string) map[string]map[string]int64 {
	found := map[string]map[string]int64{grader.DimensionResponse: {}, penalties: {}}
	add := func(dimension, part string, n int64) {
		part = strings.ToValidUTF8(part[:min(len(part), maxReason)], "")
		if n > 0 && part != "" {
			found[dimension][part] += n
		}
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
		for _, c := range v.Criteria {
			if c.Action != "" {
				add(penalties, strings.ReplaceAll(c.Action, "_", " "), c.Offered-c.Earned)
			} else {
				add(grader.DimensionResponse, c.ID, c.Offered-c.Earned)
			}
		}
		if len(v.Gates) > 0 {
			lowest := slices.MinFunc(v.Gates, func(a, b grader.Gate) int { return cmp.Compare(a.Cap, b.Cap) })
			add(grader.DimensionResponse, "limit: "+strings.ReplaceAll(lowest.ID, "-", " "), v.PreGate-v.PostGate)
		}
	}
	if known, ok := tasks.Find(task); ok && known.Replies && e.Score != nil {
		tickets := 1
		if task == tasks.QueueManagement {
			tickets = queue.Size
		}
		add(grader.DimensionResponse, noReply, int64(tickets-len(last))*grader.ResponsePoints)
	}
	return found
}

// sortLost puts each dimension before its parts, and the most costly first.
func sortLost(lost []LostPoints) {
	whole := map[string]int64{}
	of := func(l LostPoints) string { return l.Task + "/" + l.Dimension }
	for _, l := range lost {
		if l.Part == "" {
			whole[of(l)] = l.Points
		}
	}
	slices.SortFunc(lost, func(a, b LostPoints) int {
		first := 0
		if (a.Part == "") != (b.Part == "") {
			first = cmp.Compare(len(a.Part), len(b.Part))
		}
		return cmp.Or(cmp.Compare(whole[of(b)], whole[of(a)]), cmp.Compare(of(a), of(b)), first,
			cmp.Compare(b.Points, a.Points), cmp.Compare(a.Part, b.Part))
	})
}

// tally sums up the points that are lost for a reason.
type tally struct{ Episodes, Points int64 }
