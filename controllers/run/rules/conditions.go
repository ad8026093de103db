package rules

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// setConditions sets the costs and every condition, and announces what has changed. A new reason
// has an event of this type, "" for none.
func (p *pass) setConditions(o evaluation.Outcome, event string) {
	evaluation.WriteCosts(&p.d.Status, &p.s.Run.Spec)
	suspension := describeSuspension(p.s.Run)
	verdict := evaluation.BuildConditions(p.s.Run, p.d.Status, p.d.Tally.Sums, o)
	if p.s.Run.Spec.Results != nil {
		verdict = append(verdict, describeStored(p.d.Tally.Sums, o.State))
	}
	if c, known := evaluation.AgentCondition(p.d.Tally.Endpoint(), o); known {
		verdict = append(verdict, c)
	}
	if c, repeated := evaluation.PlayedOnceCondition(p.d.Status.Episodes); repeated {
		verdict = append(verdict, c)
	}
	if c, limited := evaluation.WithinBudgetCondition(&p.s.Run.Spec, p.d.Status.Tokens); limited && o.Ended() {
		verdict = append(verdict, c)
	}
	p.announceEnd(o, verdict)
	p.announceChanges(suspension, o, event)
	meta.RemoveStatusCondition(&p.d.Status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range append([]metav1.Condition{p.poolCondition, suspension}, verdict...) {
		p.set(c)
	}
}

// describeStored reports whether the episodes of the counted shards are in the result store.
func describeStored(sums score.Accumulator, is evaluation.State) metav1.Condition {
	f := sums.Figures()
	if f.Stored.Error != "" {
		f.Stored.Error = pods.QuoteMessage(f.Stored.Error)
	}
	return evaluation.StoredCondition(f.Stored, f.Episodes+f.Errored, is,
		"If the others are needed, correct that and create the run again.")
}

func describeSuspension(run *v1alpha1.EvaluationRun) metav1.Condition {
	switch {
	case !evaluation.IsSuspended(run):
		return evaluation.NewCondition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended,
			"spec.suspend is not set.")
	case evaluation.IsExternal(run):
		return evaluation.NewCondition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
			"spec.suspend is true: no episodes are collected. Servers keep them while they run and have capacity. Set "+
				"it to false to continue.")
	default:
		return evaluation.NewCondition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
			"spec.suspend is true: runners are stopped, and shards that have not ended will be played again. Set it "+
				"to false to continue.")
	}
}

// replaceVerdict sets the conditions of an outcome alone.
func (p *pass) replaceVerdict(o evaluation.Outcome) {
	meta.RemoveStatusCondition(&p.d.Status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range evaluation.BuildConditions(p.s.Run, p.d.Status, p.d.Tally.Sums, o) {
		p.set(c)
	}
}

func (p *pass) set(c metav1.Condition) { p.d.setCondition(c, p.s.Run.Generation, p.s.Now) }

// announceEnd announces how a run ends, and what the spec asks for but wasn't reached.
func (p *pass) announceEnd(o evaluation.Outcome, verdict []metav1.Condition) {
	switch {
	case !o.Ended():
		return
	case o.State == evaluation.Failed:
		p.d.addEvent(corev1.EventTypeWarning, o.Reason, o.Message)
	case p.lasts():
		p.d.addEvent(corev1.EventTypeNormal, o.Reason, o.Message)
	}
	for _, c := range verdict {
		optional := c.Type == v1alpha1.ConditionThresholdsMet || c.Type == v1alpha1.ConditionResultsStored ||
			c.Type == v1alpha1.ConditionPlayedOnce ||
			c.Type == v1alpha1.ConditionWithinBudget && o.Reason != c.Reason
		if optional && c.Status == metav1.ConditionFalse {
			p.d.addEvent(corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
}

// announceChanges announces changes of the pool, of the run's suspension and of what delays it.
func (p *pass) announceChanges(suspension metav1.Condition, o evaluation.Outcome, event string) {
	conditions, environment := p.s.Run.Status.Conditions, p.poolCondition
	before := meta.FindStatusCondition(conditions, v1alpha1.ConditionEnvironmentReady)
	if environment.Status != metav1.ConditionTrue && (before == nil || before.Reason != environment.Reason) {
		kind := corev1.EventTypeWarning
		if environment.Reason == v1alpha1.ReasonEnvironmentNotAvailable {
			kind = corev1.EventTypeNormal // a pool is often applied together with its runs
		}
		p.d.addEvent(kind, environment.Reason, environment.Message)
	}
	was := meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionSuspended)
	switch is := suspension.Status == metav1.ConditionTrue; {
	case is && !was:
		p.d.addEvent(corev1.EventTypeNormal, v1alpha1.ReasonSuspended, suspension.Message)
	case was && !is && evaluation.IsExternal(p.s.Run):
		p.d.addEvent(corev1.EventTypeNormal, v1alpha1.ReasonResumed, "The run collects episodes again.")
	case was && !is:
		p.d.addEvent(corev1.EventTypeNormal, v1alpha1.ReasonResumed,
			"The run continues with the shards that are not counted yet.")
	}
	last := meta.FindStatusCondition(conditions, v1alpha1.ConditionComplete)
	if event != "" && (last == nil || last.Reason != o.Reason) {
		p.d.addEvent(event, o.Reason, o.Message)
	}
}

// MinRefusedRetry and maxRefusedRetry bound the time until a refused object is created again, which
// is a tenth of the time that has passed since the run began.
const (
	MinRefusedRetry = 5 * time.Second
	maxRefusedRetry = 2 * time.Minute
)

// ReportRefusal is the decision of a pass after the API server has refused an object: it writes
// the status alone. A Job that isn't valid never will be, because the spec that it follows from
// can't be changed.
func ReportRefusal(s snapshot.Snapshot, next Decision, object string, err error) Decision {
	words := strings.TrimSuffix(err.Error(), ".")
	p := &pass{s: s, d: next, refusal: refusal{object: object, words: words,
		invalid: strings.HasPrefix(object, "Job ") && strings.Contains(words, " is invalid: ")}}
	r, f := rule.First(Table, Refused, p)
	o := evaluation.Outcome{State: r.State, Reason: r.Reason, Message: r.Message(p, f)}
	d := Decision{Status: *next.Status.DeepCopy(), Tally: tally.Result{Sums: next.Tally.Sums}}
	last := meta.FindStatusCondition(s.Run.Status.Conditions, v1alpha1.ConditionComplete)
	if last == nil || last.Reason != o.Reason || last.Message != pods.ShortenText(o.Message, pods.MaxNote) {
		d.addEvent(corev1.EventTypeWarning, o.Reason, o.Message)
	}
	if o.Ended() {
		d.Status.CompletionTime = new(metav1.NewTime(s.Now))
		d.hideLive()
	}
	for _, c := range evaluation.BuildConditions(s.Run, d.Status, next.Tally.Sums, o) {
		d.setCondition(c, s.Run.Generation, s.Now)
	}
	began := ptr.Deref(s.Run.Status.StartTime, metav1.NewTime(s.Now))
	d.Again = min(max(s.Now.Sub(began.Time)/10, MinRefusedRetry), maxRefusedRetry)
	return d
}
