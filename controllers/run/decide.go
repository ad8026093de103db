package run

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// waitDelay is the time between two looks at what no event reports: a pool that can't be read, a
// name that is taken.
const waitDelay = 15 * time.Second

// decision is what a pass is going to write, in the order of the fields.
type decision struct {
	scores  *string // the table of scenarios, if it differs
	status  v1alpha1.EvaluationRunStatus
	events  []event
	folding folding

	removePlan bool        // the ConfigMap isn't the plan
	createPlan *score.Plan // there is no ConfigMap
	deleteJob  bool
	createJob  *jobSpec
	changeJob  jobChange

	release   []corev1.Pod // whose finalizer is removed
	deleteRun bool
	again     time.Duration
}

// jobChange is what is to be changed about a Job, nil what is to stay.
type jobChange struct {
	parallelism *int32
	suspend     *bool
	// deadline, in seconds, ends a Job and leaves the pods that have ended.
	deadline *int64
}

// event is told about the run and, where another object has to do with it, about that. Events of
// one reason and action are told as one that happens again, with the note of the first.
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
	if ended(s.run.Status.Conditions) {
		reconcileEnded(&d, s)
		return d
	}
	d.status.Agent = evaluation.AgentName(s.run.Spec.Agent)
	if d.status.Provenance == nil {
		conclude(&d, s, begin(&d, s))
	} else {
		conclude(&d, s, advance(&d, s))
	}
	return d
}

// conclude writes the conditions and what follows from an end, and selects the pods to release.
func conclude(d *decision, s snapshot, p evaluation.Outcome) {
	if p.Ended() {
		d.status.CompletionTime = new(metav1.NewTime(s.now))
		d.removePlan, d.createPlan, d.createJob, d.changeJob, d.deleteJob = false, nil, nil, jobChange{}, false
		d.again = 0
		s.source.end(d, s)
		forget(d)
		setConditions(d, s, p)
		finish(d, s)
		return
	}
	setConditions(d, s, p)
	d.release = releasable(d, s)
}

// advance counts the episodes that are new. The order is the specification: the figures of a
// complete run stand, whatever has happened to the pool since.
func advance(d *decision, s snapshot) evaluation.Outcome {
	if err := s.source.fold(d, s); err.Ended() {
		return err
	}
	if o, over := s.source.complete(d, s); over {
		return o
	}
	if s.revoked {
		return failed(v1alpha1.ReasonNamespaceNotAllowed, "The pool no longer admits runs of this namespace. "+
			"Ask its owner to admit the namespace in access.allowedNamespaces, then create the run again.")
	}
	if change := s.source.change(d, s); change != "" {
		return failed(v1alpha1.ReasonEnvironmentChanged, change)
	}
	if o, over := s.source.overdue(d, s); over {
		return o
	}
	return s.source.proceed(d, s)
}

// begin fixes what the run is played with, as soon as the pool is available.
func begin(d *decision, s snapshot) evaluation.Outcome {
	if suspended(s.run) {
		return waiting(v1alpha1.ReasonSuspended,
			"The run is suspended before it has begun. Set spec.suspend to false, and it begins.")
	}
	p := obstacle(s)
	if p.State != evaluation.Waiting {
		return s.source.begin(d, s)
	}
	if late, over := startDeadline(d, s, p); over {
		return late
	}
	d.wake(waitDelay)
	return p
}

// obstacle is what keeps a run from beginning, if something does.
func obstacle(s snapshot) evaluation.Outcome {
	if c := environmentCondition(s); c.Status != metav1.ConditionTrue {
		return waiting(v1alpha1.ReasonWaitingForEnvironment, c.Message)
	}
	if len(s.taken) > 0 {
		return waiting(v1alpha1.ReasonNameTaken,
			fmt.Sprintf("%s belongs to something else. Delete it, or give the run another name.",
				strings.Join(s.taken, ", ")))
	}
	return evaluation.Outcome{State: evaluation.Running}
}

// environmentChange describes what of the pool differs from what the run began with, "" if nothing
// does, or if the pool doesn't report it.
func environmentChange(s snapshot, key string) string {
	if s.env == nil {
		return ""
	}
	began := s.run.Status.Provenance
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", began.ScenarioDigest, s.env.Status.ScenarioDigest},
		{"grader", began.GraderVersion, s.env.Status.GraderVersion},
		{"judge", began.Judge, s.env.Status.Judge},
		{"ledger key", key, s.env.Status.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return fmt.Sprintf("The %s of pool %s changed from %s to %s while the run was going on: scores of two "+
				"graders are never mixed. Create the run again.",
				field.what, s.env.Name, field.began, field.now)
		}
	}
	return ""
}
