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
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// Decision is what a pass writes, in the order of the fields.
type Decision struct {
	Scores *string // the table of scenarios, if it differs
	Status v1alpha1.EvaluationRunStatus
	Events []Event
	Tally  tally.Result

	RemovePlan bool              // the ConfigMap isn't the plan
	CreatePlan map[string]string // the inputs of runners, for which there is no ConfigMap
	DeleteJob  bool
	CreateJob  *runner.JobSpec
	ChangeJob  JobChange
	// CreateCredential puts the Secret back that the Job's runners read.
	CreateCredential bool

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

func (d *Decision) addEvent(kind, reason, note string) {
	d.Events = append(d.Events, Event{Kind: kind, Reason: reason, Note: note})
}

// wakeAfter shortens the time until the next pass, unless it is zero.
func (d *Decision) wakeAfter(after time.Duration) {
	if after != 0 && (d.Again == 0 || after < d.Again) {
		d.Again = max(after, time.Second)
	}
}

// setCondition sets a condition of a run's generation.
func (d *Decision) setCondition(c metav1.Condition, generation int64, now time.Time) {
	c.Message = pods.ShortenText(c.Message, pods.MaxNote)
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(&d.Status.Conditions, c)
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
	s             snapshot.Snapshot
	d             Decision
	poolCondition metav1.Condition  // EnvironmentReady, which the pool decides
	inputs        map[string]string // of runners, nil unless they are stored or made
	hurried       bool              // summaries don't wait for others
	batching      bool              // summaries wait for others

	plan       score.Plan        // that summaries are checked against
	planErr    error             // why there is no plan
	invalid    error             // why there can't be one
	edited     error             // why the figures in the status can't be read
	tooLarge   error             // why the sums can't be stored
	overBudget bool              // the budget leaves shards unplayed
	collected  *tally.Collection // nil until segments are counted
	refusal    refusal           // by the API server, of an object that the pass was to write

	verdict           evaluation.Outcome // on the figures, if they end the run
	verdictAtDeadline evaluation.Outcome // on an External run's, whose deadline is over
	heldUp            string             // why the run had not begun at its start deadline
	asked             rule.Stage         // the stages that the pass has reached

	// collectable are the empty sums of a collection that begins, provenance what it begins with.
	collectable *score.Ledger
	provenance  *v1alpha1.Provenance
}

func newPass(s snapshot.Snapshot) *pass {
	p := &pass{s: s, d: Decision{Status: *s.Run.Status.DeepCopy()}, poolCondition: describePool(s)}
	p.d.Status.ObservedGeneration = s.Run.Generation
	return p
}

// describePool reports whether the pool exists, admits the run, accepts sessions and can be
// read. The message doesn't reveal whether a pool exists that doesn't admit the run's namespace.
func describePool(s snapshot.Snapshot) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return evaluation.NewCondition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, reason,
			fmt.Sprintf(format, args...))
	}
	key := evaluation.PoolOf(s.Run)
	name := key.Name
	switch s.PoolState() {
	case snapshot.PoolForbidden:
		return no(v1alpha1.ReasonNamespaceNotAllowed, "No CustomerSupportEnv %s in namespace %s admits runs of "+
			"namespace %s. Correct spec.environmentRef, or ask the pool's owner to admit the namespace in "+
			"access.allowedNamespaces.", name, key.Namespace, s.Run.Namespace)
	case snapshot.PoolMissing:
		return no(v1alpha1.ReasonEnvironmentNotFound, "There is no CustomerSupportEnv %s in namespace %s. Create it "+
			"to continue.", name, key.Namespace)
	case snapshot.PoolNeedsToken:
		return no(v1alpha1.ReasonTokenMissing, "Pool %s requires a token. Put it into a Secret of the run's "+
			"namespace, for example with %s, and create the run again with spec.environmentRef.tokenSecretRef.", name,
			pods.CreateCommand("secret", "NAME", s.Run.Namespace, "token"))
	case snapshot.PoolNew:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s has no status yet.", name)
	case snapshot.PoolNotAvailable:
		available := meta.FindStatusCondition(s.Env.Status.Conditions, v1alpha1.ConditionAvailable)
		reason := v1alpha1.ReasonEnvironmentNotAvailable
		if available.Reason == v1alpha1.ReasonJudgeNotReady {
			reason = v1alpha1.ReasonJudgeNotReady
		}
		return no(reason, "Pool %s is not available: %s", name,
			available.Message+describeDegraded(s.Env, s.Run.Namespace))
	case snapshot.PoolUnreachable:
		return no(v1alpha1.ReasonEnvironmentUnreachable,
			"The scenarios of pool %s can't be read: %v. The operator tries again.", name, s.ReportErr)
	case snapshot.PoolWithoutKey:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s has not reported its scenarios and ledger key yet.",
			name)
	case snapshot.PoolReady:
	}
	return evaluation.NewCondition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionTrue,
		v1alpha1.ReasonEnvironmentAvailable, fmt.Sprintf("Pool %s accepts sessions.", name))
}

// describeDegraded returns the message of a degraded pool. It isn't shown to other namespaces,
// since it may quote private data.
func describeDegraded(env *v1alpha1.CustomerSupportEnv, namespace string) string {
	c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Status != metav1.ConditionTrue || env.Namespace != namespace {
		return ""
	}
	return " " + c.Message
}

// nameAgent is a step.
func (p *pass) nameAgent() { p.d.Status.Agent = evaluation.AgentName(p.s.Run.Spec.Agent) }
