// Package rules decides from a Snapshot what a pass over a run writes. It is pure.
package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/bitstream"
)

// waitDelay is the time between two passes while a run waits for something that isn't watched.
const waitDelay = 15 * time.Second

// Decision is what a pass writes, in the order of the fields.
type Decision struct {
	Scores *string // the table of scenarios, if it differs
	Status v1alpha1.EvaluationRunStatus
	Events []Event
	Tally  tally.Result
	Took   time.Duration // of deciding

	plan      score.Plan        // that summaries are checked against
	planErr   error             // why there is no plan
	collected *tally.Collection // nil while the run collects nothing

	RemovePlan bool        // the ConfigMap isn't the plan
	CreatePlan *score.Plan // there is no ConfigMap
	DeleteJob  bool
	CreateJob  *runner.JobSpec
	ChangeJob  JobChange

	Lost      []corev1.Pod // of lost nodes, which are marked as failed
	Release   []corev1.Pod // whose finalizer is removed
	DeleteRun bool
	Again     time.Duration
}

// JobChange holds the fields of a Job that are to change; the others are nil.
type JobChange struct {
	Parallelism *int32
	Suspend     *bool
	Deadline    *int64 // in seconds; it ends a Job and keeps the pods that have ended
}

// Event is an event on the run, and on another object if it concerns one. Kubernetes merges events
// of the same reason and action into one, with the note of the first.
type Event struct {
	Kind, Reason, Note string
	Action             string
	About              *corev1.Pod
}

func (d *Decision) announce(kind, reason, note string) {
	d.Events = append(d.Events, Event{Kind: kind, Reason: reason, Note: note})
}

// wake shortens the time until the next pass.
func (d *Decision) wake(after time.Duration) {
	if d.Again == 0 || after < d.Again {
		d.Again = max(after, time.Second)
	}
}

// Decide derives what to write from the snapshot of a run that exists.
func Decide(s observe.Snapshot) Decision {
	d := Decision{Status: *s.Run.Status.DeepCopy()}
	if s.Closing {
		abortForDeletedNamespace(&d, s)
		return d
	}
	d.Status.ObservedGeneration = s.Run.Generation
	if evaluation.Ended(s.Run.Status.Conditions) {
		if evaluation.Resumes(s.Run) {
			resume(&d, s)
		} else {
			reconcileEnded(&d, s)
		}
		return d
	}
	if err := newerFigures(s); err != nil {
		// The pods keep their summaries until an operator can add them.
		setConditions(&d, s, running(v1alpha1.ReasonRunning, fmt.Sprintf("The figures can't be added to: %v. Use the "+
			"operator's newest release, which continues the run.", err)))
		d.wake(waitDelay)
		return d
	}
	d.Status.Agent = evaluation.AgentName(s.Run.Spec.Agent)
	var o evaluation.Outcome
	if d.Status.Provenance == nil {
		o = begin(&d, s)
	} else {
		o = sourceOf(s.Run).advance(&d, s)
	}
	if !o.Ended() {
		setConditions(&d, s, o)
		d.Release, d.Lost = releasable(&d, s), lostPods(&d, s)
		return d
	}
	d.Status.CompletionTime = new(metav1.NewTime(s.Now))
	d.RemovePlan, d.CreatePlan, d.CreateJob, d.ChangeJob, d.DeleteJob = false, nil, nil, JobChange{}, false
	d.Again = 0
	sourceOf(s.Run).end(&d, s)
	forget(&d)
	setConditions(&d, s, o)
	finish(&d, s)
	return d
}

// newerFigures returns an error if a newer release of the operator has written the figures.
func newerFigures(s observe.Snapshot) error {
	var err error
	switch {
	case s.Run.Status.Rollouts != nil:
		_, _, err = tally.ReadCollected(s.Run)
	case s.Run.Status.Shards != nil:
		_, _, err = tally.ReadCounted(s.Run)
	}
	if other, is := errors.AsType[*bitstream.VersionError](err); is && other.Got > other.Newest {
		return err
	}
	return nil
}

// begin starts a run as soon as nothing prevents it.
func begin(d *Decision, s observe.Snapshot) evaluation.Outcome {
	if err := access.CheckReferences(s.Run, s.Pools); err != nil {
		return failed(v1alpha1.ReasonForbiddenReference, fmt.Sprintf("The run is not started: %v. The author of a run "+
			"could read it. Use another object and create the run again.", err))
	}
	if observe.IsSuspended(s.Run) {
		return waiting(v1alpha1.ReasonSuspended,
			"The run is suspended and has not begun. Set spec.suspend to false to begin.")
	}
	o := obstacle(s)
	if o.State != evaluation.Waiting {
		return sourceOf(s.Run).begin(d, s)
	}
	if late := startDeadline(d, s, o); late.Ended() {
		return late
	}
	d.wake(waitDelay)
	return o
}

// obstacle returns a waiting outcome if something prevents a run from beginning.
func obstacle(s observe.Snapshot) evaluation.Outcome {
	if c := environmentCondition(s); c.Status != metav1.ConditionTrue {
		return waiting(waitingReason(c), c.Message)
	}
	if len(s.Taken) > 0 {
		return waiting(v1alpha1.ReasonNameTaken,
			fmt.Sprintf("%s belongs to something else. Delete it, or give the run another name.",
				strings.Join(s.Taken, ", ")))
	}
	return evaluation.Outcome{State: evaluation.Running}
}

// revoked fails a run whose namespace the pool no longer admits.
func revoked(_ *Decision, s observe.Snapshot) evaluation.Outcome {
	if !s.Revoked {
		return evaluation.Outcome{}
	}
	return failed(v1alpha1.ReasonNamespaceNotAllowed, "The pool no longer admits runs of this namespace. "+
		"Ask its owner to admit the namespace in access.allowedNamespaces, then "+evaluation.HowToResume(s.Run)+".")
}

// environmentChange fails a run whose pool reports other properties than the run began with.
func environmentChange(s observe.Snapshot, key string) evaluation.Outcome {
	if s.Env == nil {
		return evaluation.Outcome{}
	}
	began := s.Run.Status.Provenance
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", began.ScenarioDigest, s.Env.Status.ScenarioDigest},
		{"grader", began.GraderVersion, s.Env.Status.GraderVersion},
		{"judge", began.Judge, s.Env.Status.Judge},
		{"ledger key", key, s.Env.Status.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return failed(v1alpha1.ReasonEnvironmentChanged,
				fmt.Sprintf("The %s of pool %s changed from %s to %s during "+
					"the run. Scores of different graders are never mixed. Create the run again.",
					field.what, s.Env.Name, field.began, field.now))
		}
	}
	return evaluation.Outcome{}
}
