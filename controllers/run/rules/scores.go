package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// keepScores adds the shards that this pass counts to the table of scenarios. The table is written
// before the status: after a crash in between it has additional rows, which are replaced when their
// shards are counted. Rows of other shards are never removed, since the status of this pass may be
// old.
func keepScores(d *Decision, s observe.Snapshot, plan score.Plan) {
	if len(d.Tally.Ledgers) == 0 || s.ScoresTaken {
		return
	}
	// A table that is too large is left out, which publish reports.
	if text, err := tally.AddRows(tally.ReadTable(s.Scores), plan, d.Tally).MarshalText(); err == nil {
		writeTable(d, s, string(text))
	}
}

func writeTable(d *Decision, s observe.Snapshot, text string) {
	if s.Scores == nil || s.Scores.Data[v1alpha1.ScoresKey] != text {
		d.Scores = &text
	}
}

// complete publishes the table and the comparison of a complete run.
func complete(d *Decision, s observe.Snapshot, plan score.Plan) {
	table := tally.ReadTable(s.Scores)
	if d.Scores != nil && table.UnmarshalText([]byte(*d.Scores)) != nil {
		table = &score.ScenarioTable{}
	}
	table.Keep(plan, d.Tally.Completed)
	publish(d, s, table)
}

// publish writes the reference to a complete run's table, and the comparison.
func publish(d *Decision, s observe.Snapshot, table *score.ScenarioTable) {
	held := d.Tally.Sums.Holds(table)
	if held {
		d.Status.ScoresRef = &v1alpha1.ObjectReference{Name: observe.NameScores(s.Run)}
	} else {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonScoresLeftOut,
			fmt.Sprintf("There is no table of the scenarios' scores: it exceeds %d bytes, or ConfigMap %s was changed "+
				"or has another owner. The figures are not affected.", score.MaxTableBytes, observe.NameScores(s.Run)))
	}
	if s.Run.Spec.BaselineRef == nil {
		return
	}
	if !held {
		table = nil
	}
	compareWithBaseline(d, s, table)
}

// compareWithBaseline writes the comparison of a complete run, whose table is nil if it has none.
func compareWithBaseline(d *Decision, s observe.Snapshot, table *score.ScenarioTable) {
	now := s.Run.DeepCopy()
	now.Status = d.Status
	baseline := evaluation.Baseline{Run: s.Baseline}
	if s.BaselineScores != nil {
		baseline.Table = tally.ReadTable(s.BaselineScores)
	}
	d.Status.Baseline = evaluation.Compare(now, table, baseline)
	d.Status.Baseline.Message = pods.Shorten(d.Status.Baseline.Message, pods.MaxNote)
	c := evaluation.ComparedCondition(*d.Status.Baseline, baseline)
	if before := meta.FindStatusCondition(s.Run.Status.Conditions, c.Type); c.Reason != v1alpha1.ReasonCompared &&
		(before == nil || before.Reason != c.Reason) {
		d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
	}
	set(d, s, c)
}

// BaselineInterval is the time between two looks at a baseline that has not ended.
const BaselineInterval = 30 * time.Second

// compareLate compares a complete run that waits for its baseline, and checks its thresholds again.
func compareLate(d *Decision, s observe.Snapshot) {
	complete := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionComplete)
	sums, _, err := tally.ReadCounted(s.Run)
	if complete == nil || err != nil || !evaluation.AwaitsBaseline(d.Status.Conditions) {
		return // a status that was changed by hand keeps its figures
	}
	table := tally.ReadTable(s.Scores)
	if !sums.Holds(table) {
		table = nil
	}
	compareWithBaseline(d, s, table)
	outcome := evaluation.Outcome{State: evaluation.Completed, Reason: complete.Reason, Message: complete.Message}
	meta.RemoveStatusCondition(&d.Status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range evaluation.Conditions(s.Run, d.Status, sums, outcome) {
		if c.Type == v1alpha1.ConditionThresholdsMet && c.Status == metav1.ConditionFalse {
			d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
		}
		set(d, s, c)
	}
}
