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
func (p *pass) keepScores() {
	if len(p.d.Tally.Ledgers) == 0 || p.s.ScoresTaken {
		return
	}
	// A table that is too large is left out, which publish reports.
	if text, err := tally.AddRows(tally.ReadTable(p.s.Scores), p.plan, p.d.Tally).MarshalText(); err == nil {
		p.writeTable(string(text))
	}
}

func (p *pass) writeTable(text string) {
	if p.s.Scores == nil || p.s.Scores.Data[v1alpha1.ScoresKey] != text {
		p.d.Scores = &text
	}
}

// publishScores publishes the table and the comparison of a complete run.
func (p *pass) publishScores() {
	if p.collected != nil {
		p.publish(p.fillTable())
		return
	}
	p.d.Status.Shards.Flawless = nil
	table := tally.ReadTable(p.s.Scores)
	if p.d.Scores != nil && table.UnmarshalText([]byte(*p.d.Scores)) != nil {
		table = &score.ScenarioTable{}
	}
	table.Keep(p.plan, p.d.Tally.Completed)
	p.publish(table)
}

// fillTable writes the table of collected episodes. One that can't be written is empty.
func (p *pass) fillTable() *score.ScenarioTable {
	table := &score.ScenarioTable{}
	table.Fold(p.collected.Sums)
	text, err := table.MarshalText()
	if err != nil || p.s.ScoresTaken {
		return &score.ScenarioTable{}
	}
	p.writeTable(string(text))
	return table
}

// publish writes the reference to a complete run's table, and the comparison.
func (p *pass) publish(table *score.ScenarioTable) {
	held := p.d.Tally.Sums.Holds(table)
	if held {
		p.d.Status.ScoresRef = &v1alpha1.ObjectReference{Name: observe.NameScores(p.s.Run)}
	} else {
		p.d.announce(corev1.EventTypeWarning, v1alpha1.ReasonScoresLeftOut,
			fmt.Sprintf("There is no table of the scenarios' scores: it exceeds %d bytes, or ConfigMap %s was changed "+
				"or has another owner. The figures are not affected.", score.MaxTableBytes,
				observe.NameScores(p.s.Run)))
	}
	if p.s.Run.Spec.BaselineRef == nil {
		return
	}
	if !held {
		table = nil
	}
	p.compareWithBaseline(table)
}

// compareWithBaseline writes the comparison of a complete run, whose table is nil if it has none.
func (p *pass) compareWithBaseline(table *score.ScenarioTable) {
	now := p.s.Run.DeepCopy()
	now.Status = p.d.Status
	baseline := evaluation.Baseline{Run: p.s.Baseline}
	if p.s.BaselineScores != nil {
		baseline.Table = tally.ReadTable(p.s.BaselineScores)
	}
	p.d.Status.Baseline = evaluation.Compare(now, table, baseline)
	p.d.Status.Baseline.Message = pods.Shorten(p.d.Status.Baseline.Message, pods.MaxNote)
	c := evaluation.ComparedCondition(*p.d.Status.Baseline, baseline)
	if before := meta.FindStatusCondition(p.s.Run.Status.Conditions, c.Type); c.Reason != v1alpha1.ReasonCompared &&
		(before == nil || before.Reason != c.Reason) {
		p.d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
	}
	p.set(c)
}

// BaselineInterval is the time between two looks at a baseline that has not ended.
const BaselineInterval = 30 * time.Second

// compareLate compares a complete run that waits for its baseline, and checks its thresholds again.
func (p *pass) compareLate() {
	complete := meta.FindStatusCondition(p.d.Status.Conditions, v1alpha1.ConditionComplete)
	sums, _, err := tally.ReadCounted(p.s.Run)
	if complete == nil || err != nil || !evaluation.AwaitsBaseline(p.d.Status.Conditions) {
		return // a status that was changed by hand keeps its figures
	}
	p.d.Tally.Sums = sums
	table := tally.ReadTable(p.s.Scores)
	if !sums.Holds(table) {
		table = nil
	}
	p.compareWithBaseline(table)
	p.replaceVerdict(evaluation.Outcome{State: evaluation.Completed, Reason: complete.Reason,
		Message: complete.Message})
	if c := meta.FindStatusCondition(p.d.Status.Conditions, v1alpha1.ConditionThresholdsMet); c != nil &&
		c.Status == metav1.ConditionFalse {
		p.d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
	}
}
