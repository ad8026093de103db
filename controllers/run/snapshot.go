package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// reportBudget is for all servers that are asked in a pass: it must end although a network policy
// swallows every packet.
const reportBudget = 10 * time.Second

// poolReader reads what a pool offers, and what trainers have played, from the server at a pod's
// address.
type poolReader interface {
	Report(ctx context.Context, podIP string) (score.Report, error)
	Rollouts(ctx context.Context, podIP string, question score.CollectRequest) (score.Segment, error)
}

// snapshot is what one pass knows. All of it was read; nothing in it is written to.
type snapshot struct {
	run     *v1alpha1.EvaluationRun      // nil when there is none, or it is being deleted
	env     *v1alpha1.CustomerSupportEnv // nil while there is none that the run may use
	revoked bool                         // there is a pool, but it doesn't admit the run's namespace
	planMap *corev1.ConfigMap            // nil while there is none of the run's own
	job     *batchv1.Job                 // nil while there is none of the run's own
	taken   []string                     // names that the run needs and something else has
	closing bool                         // the namespace is being deleted
	options Options
	now     time.Time
	source  source // the way in which the run's episodes arrive

	// Pods are ordered by name. Those that have ended are listed with the finalizer or without.
	pods      []corev1.Pod // of this run that carry the finalizer
	failed    []corev1.Pod // of this run
	succeeded []corev1.Pod // of this run
	foreign   []corev1.Pod // that carry the finalizer and the run's name, but are not this run's

	scores         *corev1.ConfigMap       // the table of scenarios, nil while there is none of the run's own
	scoresTaken    bool                    // something else has the name of the table
	baseline       *v1alpha1.EvaluationRun // the run to compare with, nil where there is none or none is asked for
	baselineScores *corev1.ConfigMap       // its table
	live           *liveFigures            // what the servers say of the run's episodes, nil while nobody asks
	segments       []segmentReply          // what the servers replied to a run that collects, ordered by pod
	collected      *collected              // what is made of that, nil while the run collects nothing
	gone           []string                // pods of status.rollouts.servers that have ended for certain

	// report is what the pool offers, read only while the run has no plan to go by. reportErr says
	// why it is nil then.
	report    *score.Report
	reportErr error
}

// offer is what the pool offers, once its report was read.
func (s snapshot) offer() evaluation.Offer {
	return evaluation.Offer{Pool: s.env.Name, Image: s.env.Status.Image, Version: s.options.Version,
		LedgerKey: s.env.Status.LedgerPublicKey, Report: *s.report}
}

// takeSnapshot reads everything that a pass needs, and writes nothing.
func (r *Reconciler) takeSnapshot(ctx context.Context, key types.NamespacedName) (snapshot, error) {
	s := snapshot{now: r.clock.Now(), options: r.options}
	run := &v1alpha1.EvaluationRun{}
	err := r.client.Get(ctx, key, run)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("reading the run: %w", err)
	}
	if err == nil && run.DeletionTimestamp.IsZero() {
		s.run = run
	}
	if err := r.readPods(ctx, key, &s); err != nil {
		return s, err
	}
	if s.run == nil {
		return s, nil
	}
	if err := r.readPool(ctx, &s); err != nil {
		return s, err
	}
	s.source = sourceOf(run)
	return s, s.source.read(ctx, r, &s)
}

// readPods sorts the pods that bear the run's name into this run's and others'.
func (r *Reconciler) readPods(ctx context.Context, key types.NamespacedName, s *snapshot) error {
	var list corev1.PodList
	labels := client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentRunner, v1alpha1.LabelRun: key.Name}
	if err := r.client.List(ctx, &list, client.InNamespace(key.Namespace), labels); err != nil {
		return fmt.Errorf("listing the run's pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	leaving := false
	for _, pod := range list.Items {
		mine := s.run != nil && pod.Labels[labelRunUID] == string(s.run.UID)
		held := controllerutil.ContainsFinalizer(&pod, summaryFinalizer)
		if mine && pod.Status.Phase == corev1.PodFailed {
			s.failed = append(s.failed, pod)
		}
		if mine && pod.Status.Phase == corev1.PodSucceeded {
			s.succeeded = append(s.succeeded, pod)
		}
		switch {
		case mine && held:
			s.pods = append(s.pods, pod)
		case held:
			s.foreign = append(s.foreign, pod)
		}
		leaving = leaving || mine && !pod.DeletionTimestamp.IsZero()
	}
	if !leaving {
		return nil
	}
	return r.readNamespace(ctx, key.Namespace, s)
}

// readNamespace is called when pods of the run are being deleted, to find out why.
func (r *Reconciler) readNamespace(ctx context.Context, name string, s *snapshot) error {
	namespace := &corev1.Namespace{}
	err := r.direct.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	s.closing = err == nil && !namespace.DeletionTimestamp.IsZero()
	return nil
}

// poolKeyOf names the pool that a run is played against.
func poolKeyOf(run *v1alpha1.EvaluationRun) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(run.Spec.EnvironmentRef.Namespace, run.Namespace),
		Name: run.Spec.EnvironmentRef.Name}
}

// readPool reads the pool if the run may use it.
func (r *Reconciler) readPool(ctx context.Context, s *snapshot) error {
	env := &v1alpha1.CustomerSupportEnv{}
	err := r.client.Get(ctx, poolKeyOf(s.run), env)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the pool: %w", err)
	}
	allowed := env.Namespace == s.run.Namespace
	if !allowed {
		if allowed, err = r.admits(ctx, env, s.run.Namespace); err != nil {
			return err
		}
	}
	if allowed {
		s.env = env
	}
	s.revoked = !allowed
	return nil
}

// admits reports whether a pool admits runs of a namespace. A selector that can't be read admits no
// other namespace; the pool's status reports it.
func (r *Reconciler) admits(ctx context.Context, env *v1alpha1.CustomerSupportEnv, namespace string) (bool, error) {
	space := &metav1.PartialObjectMetadata{}
	space.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.client.Get(ctx, types.NamespacedName{Name: namespace}, space); err != nil {
		return false, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
	}
	allowed, err := access.Allows(env, namespace, space.Labels)
	if err != nil {
		logf.FromContext(ctx).Info("Pool admits no other namespace", "reason", err.Error())
	}
	return allowed, nil
}

// readOwn reads one of the run's own objects. While the run goes on it looks past the cache for
// what the cache doesn't have: an object that was just created, or one of somebody else's, which
// carries none of our labels and holds a name that the run needs.
func (r *Reconciler) readOwn(ctx context.Context, s *snapshot, name string, object client.Object) (bool, error) {
	key := types.NamespacedName{Namespace: s.run.Namespace, Name: name}
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) && !ended(s.run.Status.Conditions) &&
		environmentCondition(*s).Status == metav1.ConditionTrue {
		err = r.direct.Get(ctx, key, object)
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %T %s: %w", object, name, err)
	}
	if err == nil && !metav1.IsControlledBy(object, s.run) {
		s.taken = append(s.taken, fmt.Sprintf("%s %s", strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1."), name))
		return false, nil
	}
	return err == nil, nil
}

// readReport reads what the pool offers, if it is available. It asks one ready server after the
// other until one answers as the pool's status says: during a rolling update some don't.
func (r *Reconciler) readReport(ctx context.Context, s *snapshot) {
	if environmentCondition(*s).Status == metav1.ConditionTrue {
		s.report, s.reportErr = r.askReport(ctx, s.env)
	}
}

func (r *Reconciler) askReport(ctx context.Context, env *v1alpha1.CustomerSupportEnv) (*score.Report, error) {
	servers, err := pods.Servers(ctx, r.client, client.ObjectKeyFromObject(env))
	if err != nil {
		return nil, err
	}
	failed := []error{errors.New("no server is ready")}
	ctx, cancel := context.WithTimeout(ctx, reportBudget)
	defer cancel()
	for i := range servers {
		pod := &servers[i]
		if !pods.IsReady(pod) || pod.Status.PodIP == "" || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		report, err := r.pools.Report(ctx, pod.Status.PodIP)
		if err == nil {
			err = sameGrader(env, report)
		}
		if err == nil {
			return &report, nil
		}
		failed = append(failed, fmt.Errorf("server %s: %w", pod.Name, err))
	}
	return nil, failed[len(failed)-1]
}

// sameGrader reports whether a server plays and grades what its pool's status says.
func sameGrader(env *v1alpha1.CustomerSupportEnv, report score.Report) error {
	for _, field := range []struct{ what, status, server string }{
		{"scenarios", env.Status.ScenarioDigest, report.ScenarioDigest},
		{"grader", env.Status.GraderVersion, report.GraderVersion},
		{"judge", env.Status.Judge, report.Judge},
	} {
		if field.status != field.server {
			return fmt.Errorf("its %s are %q, the pool's status says %q", field.what, field.server, field.status)
		}
	}
	return nil
}
