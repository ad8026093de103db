package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
)

// FindAdvice returns what a run waits for or why it failed, and what to do. Both are "" if the run
// plays or is complete.
func FindAdvice(run *v1alpha1.EvaluationRun) (found, advice string) {
	f := checkRun(run)
	return f.Found, f.Advice
}

// checkRun returns what a run waits for or why it failed, and what to do. The zero value means that
// it plays or is complete.
func checkRun(run *v1alpha1.EvaluationRun) finding {
	conditions := run.Status.Conditions
	is := func(kind string) *metav1.Condition { return meta.FindStatusCondition(conditions, kind) }
	complete, failed, compared := is(v1alpha1.ConditionComplete), is(v1alpha1.ConditionFailed),
		is(v1alpha1.ConditionCompared)
	about := func(c *metav1.Condition) string { return c.Reason + ": " + c.Message }
	switch {
	case complete == nil:
		return newBad("not yet reconciled", "check that the operator runs")
	case failed != nil && failed.Status == metav1.ConditionTrue && evaluation.IsExternal(run):
		return newNote(about(failed), "correct the cause, then create another run")
	case failed != nil && failed.Status == metav1.ConditionTrue:
		return newNote(about(failed), "correct the cause, then: "+evaluation.ResumeCommand(run))
	case evaluation.AwaitsBaseline(conditions):
		return newNote(about(compared), "create or finish that run")
	case complete.Status == metav1.ConditionTrue:
		return finding{}
	}
	return checkWaiting(run, complete)
}

// checkWaiting is checkRun for a run that has not ended.
func checkWaiting(run *v1alpha1.EvaluationRun, complete *metav1.Condition) finding {
	found := complete.Reason + ": " + complete.Message
	pool := evaluation.PoolOf(run)
	environment := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionEnvironmentReady)
	kubectl := func(format string, args ...any) string {
		return fmt.Sprintf("kubectl -n %s ", run.Namespace) + fmt.Sprintf(format, args...)
	}
	switch complete.Reason {
	case v1alpha1.ReasonSuspended:
		return newNote(found, kubectl(`patch evalrun %s --type merge -p '{"spec":{"suspend":false}}'`, run.Name))
	case v1alpha1.ReasonQueued:
		return newNote(found, kubectl("get workloads,localqueues"))
	case v1alpha1.ReasonWaitingForCapacity:
		return newNote(found, fmt.Sprintf("wait, or raise the replicas: kubectl -n %s edit cse %s", pool.Namespace,
			pool.Name))
	case v1alpha1.ReasonWaitingForEnvironment:
		f := newNote(found, fmt.Sprintf("kubectl -n %s describe cse %s", pool.Namespace, pool.Name))
		if environment != nil && environment.Reason != v1alpha1.ReasonEnvironmentNotAvailable {
			f.Level = view.LevelBad
		}
		return f
	case v1alpha1.ReasonRunnersNotStarted, v1alpha1.ReasonUnschedulable, v1alpha1.ReasonNodeLost:
		return newBad(found, kubectl("describe pods -l %s=%s", v1alpha1.LabelRun, run.Name))
	case v1alpha1.ReasonJobRefused, v1alpha1.ReasonRunnersRefused, v1alpha1.ReasonNameTaken,
		v1alpha1.ReasonSidecarRunning:
		return newBad(found, kubectl("describe evalrun %s", run.Name))
	}
	return finding{}
}
