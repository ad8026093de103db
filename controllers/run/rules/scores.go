package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

func (p *pass) writeTable(text string) {
	if p.s.Scores == nil || p.s.Scores.Data[v1alpha1.ScoresKey] != text {
		p.d.Scores = &text
	}
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

// publishTable writes the reference to a complete run's table, and the comparison.
func (p *pass) publishTable(table *score.ScenarioTable) {
	held := p.d.Tally.Sums.Holds(table)
	if held {
		p.d.Status.ScoresRef = &v1alpha1.ObjectReference{Name: snapshot.NameScores(p.s.Run)}
	} else {
		p.d.addEvent(corev1.EventTypeWarning, v1alpha1.ReasonScoresLeftOut,
			fmt.Sprintf("There is no table of the scenarios' scores: it exceeds %d bytes, or ConfigMap %s was changed "+
				"or has another owner. The figures are not affected.", score.MaxTableBytes,
				snapshot.NameScores(p.s.Run)))
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
	p.d.Status.Baseline = evaluation.CompareBaseline(now, table, baseline)
	p.d.Status.Baseline.Message = pods.ShortenText(p.d.Status.Baseline.Message, pods.MaxNote)
	c := evaluation.ComparedCondition(*p.d.Status.Baseline, baseline)
	if before := meta.FindStatusCondition(p.s.Run.Status.Conditions, c.Type); c.Reason != v1alpha1.ReasonCompared &&
		(before == nil || before.Reason != c.Reason) {
		p.d.addEvent(corev1.EventTypeWarning, c.Reason, c.Message)
	}
	p.set(c)
}

// BaselineInterval is the interval at which a baseline that has not ended is read.
const BaselineInterval = 30 * time.Second
