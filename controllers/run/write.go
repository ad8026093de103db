package run

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/tracing"
)

// Options describe the operator.
type Options struct {
	Image   string // of the runners: the operator's own
	Version string // for a run's provenance
	// Traces makes the spans of runs, nil without tracing.
	Traces Traces
	// TracingVariables are variables that runners get too.
	TracingVariables []corev1.EnvVar
}

func (o Options) runners() runner.Options {
	return runner.Options{Image: o.Image, TracingVariables: o.TracingVariables, Traced: o.Traces != nil}
}

// Traces makes the spans of runs.
type Traces interface {
	Run(ctx context.Context, uid string, options ...trace.SpanStartOption) trace.Span
}

// writer is all that changes something in the cluster.
type writer struct {
	client   client.Client
	direct   client.Reader // past the cache, where a stale answer could lose a summary
	recorder events.EventRecorder
	keys     keys.Source
	clock    clock.PassiveClock
	metrics  *runMetrics
	options  Options
	released *releases
	counting *poolCounts
}

// poolCounts is the pool whose status was written last because a run began. The cache shows it
// later: without it, runs that begin together would need several writes each.
type poolCounts struct {
	sync.Mutex
	written *v1alpha1.CustomerSupportEnv
}

// newest returns a copy of the pool as it was written last.
func (c *poolCounts) newest(pool *v1alpha1.CustomerSupportEnv) *v1alpha1.CustomerSupportEnv {
	if c.written == nil || c.written.UID != pool.UID {
		return pool.DeepCopy()
	}
	order, err := resourceversion.CompareResourceVersion(pool.ResourceVersion, c.written.ResourceVersion)
	if err != nil || order > 0 {
		return pool.DeepCopy()
	}
	return c.written.DeepCopy()
}

// writeStatus writes the status if it differs, guarded by the resource version. Events and metrics
// follow the write.
func (w *writer) writeStatus(ctx context.Context, snap snapshot.Snapshot, next rules.Decision) error {
	run := snap.Run
	if !equality.Semantic.DeepEqual(run.Status, next.Status) {
		updated := run.DeepCopy()
		updated.Status = snap.SealStatus(next.Status)
		if err := w.client.Status().Update(ctx, updated); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	for _, e := range next.Events {
		var about runtime.Object // remains a nil interface, which a nil *Pod in it would not be
		if e.About != nil {
			about = e.About
		}
		w.recorder.Eventf(run, about, e.Kind, e.Reason, cmp.Or(e.Action, "Reconcile"), "%s",
			pods.ShortenText(e.Note, pods.MaxNote))
	}
	w.metrics.countResult(next.Tally)
	w.metrics.observeEnd(run, next.Status)
	traceEnd(ctx, w.options.Traces, run, next.Status)
	return nil
}

// countRun counts a run that begins in the status of its pool, which outlives the run. The write is
// guarded by the resource version, and the status has the UIDs of the last runs, so that a pass
// that is repeated before the run's own status is written counts nothing twice.
func (w *writer) countRun(ctx context.Context, snap snapshot.Snapshot, next rules.Decision) error {
	if snap.Run.Status.Provenance != nil || next.Status.Provenance == nil {
		return nil
	}
	w.counting.Lock()
	defer w.counting.Unlock()
	pool := w.counting.newest(snap.Env)
	if !pool.Status.CountRun(snap.Run.Namespace, string(snap.Run.UID)) {
		return nil
	}
	w.counting.written = nil
	if err := w.client.Status().Update(ctx, pool); err != nil {
		return fmt.Errorf("counting the run in the status of its pool: %w", err)
	}
	w.counting.written = pool
	return nil
}

// traceEnd makes the span of a run that has just ended, above its shards' spans.
func traceEnd(ctx context.Context, traces Traces, run *v1alpha1.EvaluationRun,
	status v1alpha1.EvaluationRunStatus) {
	if traces == nil || runner.SendsTracesElsewhere(run) || evaluation.IsExternal(run) ||
		evaluation.HasEnded(run.Status.Conditions) || status.CompletionTime == nil {
		return
	}
	about := []attribute.KeyValue{tracing.KeyRun.String(string(run.UID)), tracing.KeyRunName.String(run.Name),
		semconv.K8SNamespaceName(run.Namespace), semconv.GenAIAgentName(evaluation.AgentName(run.Spec.Agent))}
	span := traces.Run(ctx, string(run.UID), trace.WithTimestamp(run.CreationTimestamp.Time),
		trace.WithAttributes(about...))
	ended := trace.WithTimestamp(status.CompletionTime.Time)
	if status.Score != nil {
		if mean, err := strconv.ParseFloat(status.Score.Mean, 64); err == nil {
			span.AddEvent(tracing.EventEvaluation, ended, trace.WithAttributes(
				semconv.GenAIEvaluationName("mean_score"), semconv.GenAIEvaluationScoreValue(mean)))
		}
	}
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionFailed) {
		tracing.FailSpan(span, meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed).Reason)
	}
	span.End(ended)
}

// writeScores writes the table of scenarios, guarded by its resource version, and remembers it in
// case that somebody deletes it. A sealed one is opened when the run is complete.
func (r *Reconciler) writeScores(ctx context.Context, snap snapshot.Snapshot, next rules.Decision) error {
	table := next.Scores
	if table == nil && snap.SealedTable && meta.IsStatusConditionTrue(next.Status.Conditions,
		v1alpha1.ConditionComplete) {
		table = new(snap.Scores.Data[v1alpha1.ScoresKey])
	}
	if table == nil {
		return nil
	}
	written := &corev1.ConfigMap{ObjectMeta: runner.MakeMeta(snap.Run, snapshot.NameScores(snap.Run))}
	write := r.createObject
	if snap.Scores != nil {
		written = snap.Scores.DeepCopy()
		write = func(ctx context.Context, table client.Object) error { return r.client.Update(ctx, table) }
	}
	written.Data = map[string]string{v1alpha1.ScoresKey: snap.SealTable(*table, next.Status)}
	if err := write(ctx, written); err != nil {
		return markRefusal("ConfigMap "+written.Name, fmt.Errorf("writing the scores of scenarios: %w", err))
	}
	r.reader.Remember(written)
	return nil
}

// applyPlan creates the ConfigMap that runners read, and deletes one that isn't the plan.
func (w *writer) applyPlan(ctx context.Context, snap snapshot.Snapshot, next rules.Decision) error {
	switch {
	case next.RemovePlan:
		return client.IgnoreNotFound(w.client.Delete(ctx, snap.PlanMap, client.Preconditions{UID: &snap.PlanMap.UID}))
	case next.CreatePlan != nil:
		object := runner.MakePlanMap(snap.Run, next.CreatePlan)
		err := w.createObject(ctx, object)
		if next.DeleteJob && apierrors.IsAlreadyExists(err) {
			return nil // an earlier pass created it, which the cache doesn't show yet
		}
		return markRefusal("ConfigMap "+object.Name, err)
	}
	return nil
}

// applyJob creates, changes or deletes the Job, and creates the credential of runners that lack it.
func (w *writer) applyJob(ctx context.Context, snap snapshot.Snapshot, next rules.Decision) error {
	if next.CreateCredential || next.CreateJob != nil {
		if err := w.createCredential(ctx, snap, next.Tally.Sums.Plan); err != nil {
			return markRefusal("the Secret of the run's credential", err)
		}
	}
	switch {
	case next.DeleteJob:
		logf.FromContext(ctx).Info("Deleting the Job", "job", snap.Job.Name)
		return client.IgnoreNotFound(w.client.Delete(ctx, snap.Job, client.Preconditions{UID: &snap.Job.UID},
			client.PropagationPolicy(metav1.DeletePropagationBackground)))
	case next.CreateJob != nil:
		job := runner.MakeJob(snap.Run, snap.Env, w.options.runners(), *next.CreateJob)
		return markRefusal("Job "+snap.Run.Name, w.createObject(ctx, job))
	case next.ChangeJob != (rules.JobChange{}):
		changed := snap.Job.DeepCopy()
		c, spec := next.ChangeJob, &changed.Spec
		spec.Parallelism = cmp.Or(c.Parallelism, spec.Parallelism)
		if c.Suspend != nil && !*c.Suspend {
			runner.ResumeJob(changed)
		} else {
			spec.Suspend = cmp.Or(c.Suspend, spec.Suspend)
		}
		spec.ActiveDeadlineSeconds = cmp.Or(c.Deadline, spec.ActiveDeadlineSeconds)
		if err := w.client.Patch(ctx, changed, client.MergeFrom(snap.Job)); err != nil {
			return markRefusal("a change of Job "+changed.Name, fmt.Errorf("changing the Job: %w", err))
		}
	}
	return nil
}

// createObject creates one of the run's objects.
func (w *writer) createObject(ctx context.Context, object client.Object) error {
	if err := w.client.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
	}
	logf.FromContext(ctx).Info("Created", "kind", fmt.Sprintf("%T", object), "name", object.GetName())
	return nil
}

// createCredential creates the Secret of the run's credential for the plan with a fingerprint. One
// that exists is left as it is: the operator made it for an earlier Job of the run, or somebody
// else did, whose runners are refused.
func (w *writer) createCredential(ctx context.Context, s snapshot.Snapshot, plan string) error {
	secrets, err := w.keys.Secrets(ctx, evaluation.PoolOf(s.Run), s.PublicKey())
	if err != nil {
		return err
	}
	secret := runner.MakeCredential(s.Run, secrets.RunCredential(string(s.Run.UID),
		poolkey.Grant{Plan: plan, Namespace: s.Run.Namespace}))
	if err := w.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s with the run's credential: %w", types.NamespacedName{
			Namespace: secret.Namespace, Name: secret.Name}, err)
	}
	return nil
}
