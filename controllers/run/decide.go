package run

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
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/bitstream"
)

// waitDelay is the time between two passes while a run waits for something that isn't watched.
const waitDelay = 15 * time.Second

// decision is what a pass writes, in the order of the fields.
type decision struct {
	scores  *string // the table of scenarios, if it differs
	status  v1alpha1.EvaluationRunStatus
	events  []event
	folding folding
	took    time.Duration // of deciding

	plan      score.Plan // that summaries are checked against
	planErr   error      // why there is no plan
	collected *collected // nil while the run collects nothing

	removePlan bool        // the ConfigMap isn't the plan
	createPlan *score.Plan // there is no ConfigMap
	deleteJob  bool
	createJob  *jobSpec
	changeJob  jobChange

	lost      []corev1.Pod // of lost nodes, which are marked as failed
	release   []corev1.Pod // whose finalizer is removed
	deleteRun bool
	again     time.Duration
}

// jobChange holds the fields of a Job that are to change; the others are nil.
type jobChange struct {
	parallelism *int32
	suspend     *bool
	deadline    *int64 // in seconds; it ends a Job and keeps the pods that have ended
}

// event is an event on the run, and on another object if it concerns one. Kubernetes merges events
// of the same reason and action into one, with the note of the first.
type event struct {
	kind, reason, note string
	action             string
	about              *corev1.Pod
}

func (d *decision) announce(kind, reason, note string) {
	d.events = append(d.events, event{kind: kind, reason: reason, note: note})
}

// wake shortens the time until the next pass.
func (d *decision) wake(after time.Duration) {
	if d.again == 0 || after < d.again {
		d.again = max(after, time.Second)
	}
}

// decide derives what to write from the snapshot of a run that exists.
func decide(s snapshot) decision {
	d := decision{status: *s.run.Status.DeepCopy()}
	if s.closing {
		abortForDeletedNamespace(&d, s)
		return d
	}
	d.status.ObservedGeneration = s.run.Generation
	if evaluation.Ended(s.run.Status.Conditions) {
		if evaluation.Resumes(s.run) {
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
	d.status.Agent = evaluation.AgentName(s.run.Spec.Agent)
	var o evaluation.Outcome
	if d.status.Provenance == nil {
		o = begin(&d, s)
	} else {
		o = sourceOf(s.run).advance(&d, s)
	}
	if !o.Ended() {
		setConditions(&d, s, o)
		d.release, d.lost = releasable(&d, s), lostPods(&d, s)
		return d
	}
	d.status.CompletionTime = new(metav1.NewTime(s.now))
	d.removePlan, d.createPlan, d.createJob, d.changeJob, d.deleteJob = false, nil, nil, jobChange{}, false
	d.again = 0
	sourceOf(s.run).end(&d, s)
	forget(&d)
	setConditions(&d, s, o)
	finish(&d, s)
	return d
}

// newerFigures returns an error if a newer release of the operator has written the figures.
func newerFigures(s snapshot) error {
	var err error
	switch {
	case s.run.Status.Rollouts != nil:
		_, _, err = collectedBefore(s.run)
	case s.run.Status.Shards != nil:
		_, _, err = counted(s.run)
	}
	if other, is := errors.AsType[*bitstream.VersionError](err); is && other.Got > other.Newest {
		return err
	}
	return nil
}

// begin starts a run as soon as nothing prevents it.
func begin(d *decision, s snapshot) evaluation.Outcome {
	if err := access.CheckReferences(s.run, s.pools); err != nil {
		return failed(v1alpha1.ReasonForbiddenReference, fmt.Sprintf("The run is not started: %v. The author of a run "+
			"could read it. Use another object and create the run again.", err))
	}
	if isSuspended(s.run) {
		return waiting(v1alpha1.ReasonSuspended,
			"The run is suspended and has not begun. Set spec.suspend to false to begin.")
	}
	o := obstacle(s)
	if o.State != evaluation.Waiting {
		return sourceOf(s.run).begin(d, s)
	}
	if late := startDeadline(d, s, o); late.Ended() {
		return late
	}
	d.wake(waitDelay)
	return o
}

// obstacle returns a waiting outcome if something prevents a run from beginning.
func obstacle(s snapshot) evaluation.Outcome {
	if c := environmentCondition(s); c.Status != metav1.ConditionTrue {
		return waiting(waitingReason(c), c.Message)
	}
	if len(s.taken) > 0 {
		return waiting(v1alpha1.ReasonNameTaken,
			fmt.Sprintf("%s belongs to something else. Delete it, or give the run another name.",
				strings.Join(s.taken, ", ")))
	}
	return evaluation.Outcome{State: evaluation.Running}
}

// revoked fails a run whose namespace the pool no longer admits.
func revoked(_ *decision, s snapshot) evaluation.Outcome {
	if !s.revoked {
		return evaluation.Outcome{}
	}
	return failed(v1alpha1.ReasonNamespaceNotAllowed, "The pool no longer admits runs of this namespace. "+
		"Ask its owner to admit the namespace in access.allowedNamespaces, then "+evaluation.HowToResume(s.run)+".")
}

// environmentChange fails a run whose pool reports other properties than the run began with.
func environmentChange(s snapshot, key string) evaluation.Outcome {
	if s.env == nil {
		return evaluation.Outcome{}
	}
	began := s.run.Status.Provenance
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", began.ScenarioDigest, s.env.Status.ScenarioDigest},
		{"grader", began.GraderVersion, s.env.Status.GraderVersion},
		{"judge", began.Judge, s.env.Status.Judge},
		{"ledger key", key, s.env.Status.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return failed(v1alpha1.ReasonEnvironmentChanged,
				fmt.Sprintf("The %s of pool %s changed from %s to %s during "+
					"the run. Scores of different graders are never mixed. Create the run again.",
					field.what, s.env.Name, field.began, field.now))
		}
	}
	return evaluation.Outcome{}
}
