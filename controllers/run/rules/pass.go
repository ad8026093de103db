package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// Decision is what a pass writes, in the order of the fields.
type Decision struct {
	Scores *string // the table of scenarios, if it differs
	Status v1alpha1.EvaluationRunStatus
	Events []Event
	Tally  tally.Result

	RemovePlan bool        // the ConfigMap isn't the plan
	CreatePlan *score.Plan // there is no ConfigMap
	DeleteJob  bool
	CreateJob  *runner.JobSpec
	ChangeJob  JobChange

	Lost      []corev1.Pod // of lost nodes, which are marked as failed
	Release   []corev1.Pod // whose finalizer is removed
	DeleteRun bool
	Again     time.Duration

	// Rule is the reason of the rule that ended the run or holds it up, for the log.
	Rule string
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

// wake shortens the time until the next pass, unless it is zero.
func (d *Decision) wake(after time.Duration) {
	if after != 0 && (d.Again == 0 || after < d.Again) {
		d.Again = max(after, time.Second)
	}
}

// setCondition sets a condition of a run's generation.
func (d *Decision) setCondition(c metav1.Condition, generation int64, now time.Time) {
	c.Message = pods.Shorten(c.Message, pods.MaxNote)
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(&d.Status.Conditions, c)
}

// stopWork leaves the run's objects as they are.
func (d *Decision) stopWork() {
	d.RemovePlan, d.CreatePlan, d.CreateJob, d.ChangeJob, d.DeleteJob = false, nil, nil, JobChange{}, false
	d.Again = 0
}

// hideLive removes the fields that are set only while a run is being played.
func (d *Decision) hideLive() {
	d.Status.EstimatedCompletionTime = nil
	if d.Status.Episodes != nil {
		d.Status.Episodes.Active = nil
	}
}

// waitDelay is the time between two passes while a run waits for something that isn't watched.
const waitDelay = 15 * time.Second

// pass is the work on one decision.
type pass struct {
	s           observe.Snapshot
	d           Decision
	environment metav1.Condition // the pool's

	plan      score.Plan        // that summaries are checked against
	planErr   error             // why there is no plan
	invalid   error             // why there can't be one
	edited    error             // why the figures in the status can't be read
	tooLarge  error             // why the sums can't be stored
	collected *tally.Collection // nil until segments are counted

	// collectable are the empty sums of a collection that begins, provenance what it begins with.
	collectable *score.Ledger
	provenance  *v1alpha1.Provenance
}

func newPass(s observe.Snapshot) *pass {
	p := &pass{s: s, d: Decision{Status: *s.Run.Status.DeepCopy()}, environment: describePool(s)}
	p.d.Status.ObservedGeneration = s.Run.Generation
	return p
}

// nameAgent is a step.
func (p *pass) nameAgent() { p.d.Status.Agent = evaluation.AgentName(p.s.Run.Spec.Agent) }
