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

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// reportBudget is for all servers that are asked in a pass: it must end although a network policy swallows every packet.
const reportBudget = 10 * time.Second

// poolReader reads what a pool offers from the server at a pod's address.
type poolReader interface {
	Report(ctx context.Context, podIP string) (score.Report, error)
}

// snapshot is what one pass knows. All of it was read; nothing in it is written to.
type snapshot struct {
	run     *v1alpha1.EvaluationRun      // nil when there is none, or it is being deleted
	env     *v1alpha1.CustomerSupportEnv // nil while there is none
	planMap *corev1.ConfigMap            // nil while there is none of the run's own
	job     *batchv1.Job                 // nil while there is none of the run's own
	pods    []corev1.Pod                 // of this run that carry the finalizer, ordered by name
	failed  []corev1.Pod                 // of this run that have failed, with the finalizer or without, ordered by name
	taken   []string                     // names that the run needs and something else has
	foreign []corev1.Pod                 // that carry the finalizer and the run's name, but are not this run's
	closing bool                         // the namespace is being deleted
	options Options
	now     time.Time

	// report is what the pool offers, read only while the run has no plan to go by. reportErr says why it is nil then.
	report    *score.Report
	reportErr error
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
	if err := r.readChildren(ctx, &s); err != nil {
		return s, err
	}
	if !s.closing && needsReport(s) {
		s.report, s.reportErr = r.readReport(ctx, s.env)
	}
	return s, nil
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

// readNamespace is asked when pods of the run are being deleted, for nothing else tells why.
func (r *Reconciler) readNamespace(ctx context.Context, name string, s *snapshot) error {
	namespace := &corev1.Namespace{}
	err := r.live.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	s.closing = err == nil && !namespace.DeletionTimestamp.IsZero()
	return nil
}

// readChildren reads the pool and the run's own objects.
func (r *Reconciler) readChildren(ctx context.Context, s *snapshot) error {
	env := &v1alpha1.CustomerSupportEnv{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Spec.EnvironmentRef.Name}, env)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the pool: %w", err)
	}
	if err == nil {
		s.env = env
	}
	planMap, job := &corev1.ConfigMap{}, &batchv1.Job{}
	if found, err := r.readOwn(ctx, s, planName(s.run), planMap); err != nil {
		return err
	} else if found {
		s.planMap = planMap
	}
	if found, err := r.readOwn(ctx, s, s.run.Name, job); err != nil {
		return err
	} else if found {
		s.job = job
	}
	return nil
}

// readOwn reads one of the run's own objects. While the run goes on it looks past the cache for what the cache doesn't have: an object that was just created, or one of
// somebody else's, which carries none of our labels and holds a name that the run needs.
func (r *Reconciler) readOwn(ctx context.Context, s *snapshot, name string, object client.Object) (bool, error) {
	key := types.NamespacedName{Namespace: s.run.Namespace, Name: name}
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) && !ended(s.run.Status.Conditions) && environmentCondition(*s).Status == metav1.ConditionTrue {
		err = r.live.Get(ctx, key, object)
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

// needsReport says whether the pass has to ask the pool what it offers: to make the plan, or to make again one that got lost.
func needsReport(s snapshot) bool {
	if ended(s.run.Status.Conditions) || environmentCondition(s).Status != metav1.ConditionTrue {
		return false
	}
	_, err := storedPlan(s)
	return s.run.Status.Provenance == nil || err != nil
}

// readReport asks one server after the other, ready ones only, until one answers with what the pool's status says: during a rollout some don't.
func (r *Reconciler) readReport(ctx context.Context, env *v1alpha1.CustomerSupportEnv) (*score.Report, error) {
	var list corev1.PodList
	labels := client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer, v1alpha1.LabelEnvironment: env.Name}
	if err := r.client.List(ctx, &list, client.InNamespace(env.Namespace), labels); err != nil {
		return nil, fmt.Errorf("listing the pool's servers: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	failed := []error{errors.New("no server is ready")}
	ctx, cancel := context.WithTimeout(ctx, reportBudget)
	defer cancel()
	for i := range list.Items {
		pod := &list.Items[i]
		if !ready(pod) {
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

func ready(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// sameGrader says whether a server plays and grades what its pool's status says.
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
