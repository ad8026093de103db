package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/controllers/stats"
	"github.com/csenv/csenv/envserver/score"
)

// requestBudget bounds all requests of a pass, which must end even if a network policy drops every
// packet.
const requestBudget = 10 * time.Second

// concurrentPolls is the number of runs that are polled at a time. Each sends at most requestWidth
// requests at a time.
const concurrentPolls = 16

// poolReader reads the report and the segments of the server at a pod's address.
type poolReader interface {
	Report(ctx context.Context, podIP, token string) (score.Report, error)
	Rollouts(ctx context.Context, podIP, token string, request score.CollectRequest) (score.Segment, error)
}

// snapshot is what one pass has read. It is not written to.
type snapshot struct {
	run     *v1alpha1.EvaluationRun      // nil if it doesn't exist or is being deleted
	env     *v1alpha1.CustomerSupportEnv // nil unless the run may use it
	revoked bool                         // there is a pool, but it doesn't admit the run's namespace
	planMap *corev1.ConfigMap            // nil unless the run has created it
	job     *batchv1.Job                 // nil unless the run has created it
	taken   []string                     // objects of others with names that the run needs
	closing bool                         // the namespace is being deleted
	version string                       // of the operator
	now     time.Time

	// Pods are ordered by name. failed and succeeded list them with the finalizer or without.
	pods      []corev1.Pod // of this run that carry the finalizer
	failed    []corev1.Pod // of this run
	succeeded []corev1.Pod // of this run, whose runner has succeeded: a sidecar may keep them running
	stopping  []corev1.Pod // of this run that are being deleted without the finalizer
	foreign   []corev1.Pod // that carry the finalizer and the run's name, but are not this run's

	scores         *corev1.ConfigMap       // the table of scenarios, nil unless the run has created it
	scoresTaken    bool                    // something else has the name of the table
	baseline       *v1alpha1.EvaluationRun // the run to compare with, or nil
	baselineScores *corev1.ConfigMap       // its table
	live           *liveFigures            // the servers' counts of the run's episodes, nil while not polled
	token          string                  // of the servers' operations port, read with the segments
	segments       []segmentReply          // the servers' replies to a run that collects, ordered by pod
	gone           []string                // pods of status.rollouts.servers that no longer exist

	pools     []v1alpha1.CustomerSupportEnv // of the run's namespace, read only until the run begins
	lostNodes map[string]bool               // nodes of overdue pods, true for those that don't answer

	podsRefused string // why the API server refuses the Job's pods, "" if it has pods

	report    *score.Report // the pool's offer, read only while the run has no plan
	reportErr error         // why report couldn't be read
	// imageDigests are those of the servers that were ready then.
	imageDigests []string
}

// offer requires that the report was read.
func (s snapshot) offer() evaluation.Offer {
	return evaluation.Offer{Pool: s.env.Name, Image: s.env.Status.Image, ImageDigests: s.imageDigests,
		Version: s.version, LedgerKey: s.env.Status.LedgerPublicKey, Report: *s.report, Limits: s.env.Spec.Runs}
}

// Reader reads what a pass needs. It has no client that writes.
type Reader struct {
	cache    client.Reader
	metadata client.Reader // of ConfigMaps: the cache
	direct   client.Reader // past the cache, where a stale answer could lose a summary
	pools    poolReader
	polls    *polling.Poller[polled]
	keys     keys.Source
	live     *livePoller
	contents *contents
	clock    clock.PassiveClock
	version  string // of the operator, for a run's provenance
}

// newReader returns a reader of the manager's cluster.
func newReader(mgr ctrl.Manager, version string) *Reader {
	reader := stats.NewReader()
	polls := polling.New[polled](concurrentPolls)
	return &Reader{
		cache:    mgr.GetClient(),
		metadata: mgr.GetCache(),
		direct:   mgr.GetAPIReader(),
		pools:    reader,
		keys:     objects.Keys(mgr.GetAPIReader()),
		polls:    polls,
		live:     newLivePoller(reader, polls.Do),
		contents: newContents(),
		clock:    clock.RealClock{},
		version:  version,
	}
}

// poolState is what a run finds of its pool.
type poolState int

// The states in the order in which they are looked for.
const (
	poolForbidden    poolState = iota + 1 // no pool of another namespace admits the run
	poolMissing                           // there is no pool in the run's namespace
	poolNeedsToken                        // the runners can't read the pool's token
	poolNew                               // it has no status
	poolNotAvailable                      // it accepts no sessions
	poolUnreachable                       // its report can't be read
	poolWithoutKey                        // it has not reported its scenarios and ledger key
	poolReady
)

// poolState doesn't tell a missing pool from one that doesn't admit the run's namespace.
func (s snapshot) poolState() poolState {
	switch {
	case s.env == nil && evaluation.PoolOf(s.run).Namespace != s.run.Namespace:
		return poolForbidden
	case s.env == nil:
		return poolMissing
	case s.env.Spec.Access.TokenSecretRef != nil && poolToken(s.run, s.env) == nil && !isExternal(s.run):
		return poolNeedsToken
	}
	available := meta.FindStatusCondition(s.env.Status.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case available == nil:
		return poolNew
	case available.Status != metav1.ConditionTrue:
		return poolNotAvailable
	case s.reportErr != nil:
		return poolUnreachable
	}
	if _, err := score.ParsePublicKey(s.env.Status.LedgerPublicKey); err != nil || s.env.Status.ScenarioDigest == "" {
		return poolWithoutKey
	}
	return poolReady
}

// takeSnapshot reads everything that a pass needs.
func (r *Reader) takeSnapshot(ctx context.Context, key types.NamespacedName) (snapshot, error) {
	s := snapshot{now: r.clock.Now(), version: r.version}
	run := &v1alpha1.EvaluationRun{}
	err := r.cache.Get(ctx, key, run)
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
	if err := r.readNeighbours(ctx, &s); err != nil {
		return s, err
	}
	if isExternal(run) {
		return s, r.readCollection(ctx, &s)
	}
	return s, r.readJob(ctx, &s)
}

// isExternal reports whether trainers play the run.
func isExternal(run *v1alpha1.EvaluationRun) bool {
	return run.Spec.Agent.Type == v1alpha1.ExternalAgent
}

// readPods reads the pods with the run's name, this run's and those of others of its name.
func (r *Reader) readPods(ctx context.Context, key types.NamespacedName, s *snapshot) error {
	var list corev1.PodList
	labels := client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentRunner, v1alpha1.LabelRun: key.Name}
	if err := r.cache.List(ctx, &list, client.InNamespace(key.Namespace), labels); err != nil {
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
		if mine && runnerSucceeded(&pod) {
			s.succeeded = append(s.succeeded, pod)
		}
		switch {
		case mine && held:
			s.pods = append(s.pods, pod)
		case held:
			s.foreign = append(s.foreign, pod)
		case mine && !pod.DeletionTimestamp.IsZero():
			s.stopping = append(s.stopping, pod)
		}
		leaving = leaving || mine && !pod.DeletionTimestamp.IsZero()
	}
	if !leaving {
		return nil
	}
	return r.readNamespace(ctx, key.Namespace, s)
}

// readNamespace finds out whether the namespace is being deleted.
func (r *Reader) readNamespace(ctx context.Context, name string, s *snapshot) error {
	namespace := &corev1.Namespace{}
	err := r.direct.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	s.closing = err == nil && !namespace.DeletionTimestamp.IsZero()
	return nil
}

// readPool reads the pool if it admits the run.
func (r *Reader) readPool(ctx context.Context, s *snapshot) error {
	env := &v1alpha1.CustomerSupportEnv{}
	err := r.cache.Get(ctx, evaluation.PoolOf(s.run), env)
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
	s.revoked = !allowed
	if allowed {
		s.env = env
	}
	return nil
}

// readNeighbours reads the pools whose Secrets the run's pods could read.
func (r *Reader) readNeighbours(ctx context.Context, s *snapshot) error {
	if s.run.Status.Provenance != nil || evaluation.Ended(s.run.Status.Conditions) {
		return nil
	}
	list := &v1alpha1.CustomerSupportEnvList{}
	if err := r.cache.List(ctx, list, client.InNamespace(s.run.Namespace)); err != nil {
		return fmt.Errorf("listing the pools of namespace %s: %w", s.run.Namespace, err)
	}
	s.pools = list.Items
	return nil
}

// admits reports whether a pool admits runs of a namespace. An invalid selector, which the pool's
// status reports, admits no other namespace.
func (r *Reader) admits(ctx context.Context, env *v1alpha1.CustomerSupportEnv, namespace string) (bool, error) {
	space := &metav1.PartialObjectMetadata{}
	space.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if env.Spec.Access.AllowedNamespaces.From == v1alpha1.SelectedNamespaces {
		// A cache would watch all namespaces, which needs a right on the whole cluster.
		if err := r.direct.Get(ctx, types.NamespacedName{Name: namespace}, space); err != nil {
			return false, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
		}
	}
	allowed, err := access.Allows(env, namespace, space.Labels)
	if err != nil {
		logf.FromContext(ctx).Info("Pool admits no other namespace", "reason", err.Error())
	}
	return allowed, nil
}

// readOwn reads one of the run's own objects and reports whether it exists. Until the run has
// ended, objects that the cache doesn't have are read past it: they may have just been created, or
// may belong to another owner, whose objects the cache doesn't contain.
func (r *Reader) readOwn(ctx context.Context, s *snapshot, name string, object client.Object) (bool, error) {
	key := types.NamespacedName{Namespace: s.run.Namespace, Name: name}
	var err error
	if configMap, ok := object.(*corev1.ConfigMap); ok {
		err = r.readConfigMap(ctx, key, configMap)
	} else {
		err = r.cache.Get(ctx, key, object)
	}
	if apierrors.IsNotFound(err) && !evaluation.Ended(s.run.Status.Conditions) &&
		s.poolState() == poolReady {
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

// errPolling means that servers are being polled. The poller requests another pass.
var errPolling = errors.New("servers are being polled")

// polled is what a poll for a run returns: a report before the run has begun, and segments after.
type polled struct {
	report    *score.Report
	reportErr error
	digests   []string // of the image of the servers that are ready
	segments  []segmentReply
}

// poll polls servers in the background. Its answer belongs to one version of what it is for.
func (r *Reader) poll(ctx context.Context, s *snapshot, version string,
	requests func(context.Context) polled) (polled, error) {
	q := polling.Question{Object: client.ObjectKeyFromObject(s.run), Version: version, Pool: evaluation.PoolOf(s.run)}
	answer, known := r.polls.Ask(ctx, q, requests)
	if !known {
		return polled{}, errPolling
	}
	return answer, nil
}

// readReport reads the report of an available pool from the first ready server whose report matches
// the pool's status, which not all do during a rolling update.
func (r *Reader) readReport(ctx context.Context, s *snapshot) error {
	if s.poolState() != poolReady {
		return nil
	}
	// The report must be of the grader that this version of the pool's status describes.
	version := s.run.ResourceVersion + " " + s.env.ResourceVersion
	answer, err := r.poll(ctx, s, version, func(ctx context.Context) (p polled) {
		p.report, p.digests, p.reportErr = r.fetchReport(ctx, s.env)
		return p
	})
	s.report, s.reportErr, s.imageDigests = answer.report, answer.reportErr, answer.digests
	return err
}

// fetchReport returns a server's report, and the digests of the image that the ready servers run.
func (r *Reader) fetchReport(ctx context.Context,
	env *v1alpha1.CustomerSupportEnv) (*score.Report, []string, error) {
	servers, err := objects.Servers(ctx, r.cache, client.ObjectKeyFromObject(env))
	if err != nil {
		return nil, nil, err
	}
	servers = slices.DeleteFunc(servers, func(pod corev1.Pod) bool {
		return !pods.IsReady(&pod) || pod.Status.PodIP == "" || !pod.DeletionTimestamp.IsZero()
	})
	secrets, err := r.keys.Secrets(ctx, client.ObjectKeyFromObject(env), env.Status.LedgerPublicKey)
	if err != nil {
		return nil, nil, err
	}
	failure := errors.New("no server is ready")
	ctx, cancel := context.WithTimeout(ctx, requestBudget)
	defer cancel()
	for i := range servers {
		pod := &servers[i]
		report, err := r.pools.Report(ctx, pod.Status.PodIP, secrets.Operations)
		if err == nil {
			err = sameGrader(env, report)
		}
		if err == nil {
			return &report, pods.ImageDigests(servers, pods.ServerContainer), nil
		}
		failure = fmt.Errorf("server %s: %w", pod.Name, err)
	}
	return nil, nil, failure
}

// sameGrader returns an error if a server's scenarios or grader differ from its pool's status.
func sameGrader(env *v1alpha1.CustomerSupportEnv, report score.Report) error {
	for _, field := range []struct{ what, status, server string }{
		{"scenario digest", env.Status.ScenarioDigest, report.ScenarioDigest},
		{"grader version", env.Status.GraderVersion, report.GraderVersion},
		{"judge", env.Status.Judge, report.Judge},
	} {
		if field.status != field.server {
			return fmt.Errorf("its %s is %q, but %q in the pool's status", field.what, field.server, field.status)
		}
	}
	return nil
}

// source is the way in which a run's episodes arrive: in the summaries of a Job's runners, or in
// segments of the pool's servers. A pass chooses it once.
type source interface {
	// begin writes to the status what the run begins with.
	begin(d *decision, s snapshot) evaluation.Outcome
	// advance counts what is new, checks whether the run has ended, and has the rest played.
	advance(d *decision, s snapshot) evaluation.Outcome
	// end completes the status of a run that has ended.
	end(d *decision, s snapshot)
	// traits are constant.
	traits() traits
}

// traits are the properties of a source that messages and conditions depend on.
type traits struct {
	suspended, resumed string
}

func sourceOf(run *v1alpha1.EvaluationRun) source {
	if isExternal(run) {
		return serverSource{}
	}
	return jobSource{}
}

// inOrder runs checks until one ends the run, and returns the outcome of the last that it ran.
func inOrder(d *decision, s snapshot, checks ...func(*decision, snapshot) evaluation.Outcome) evaluation.Outcome {
	var o evaluation.Outcome
	for _, check := range checks {
		if o = check(d, s); o.Ended() {
			break
		}
	}
	return o
}

// forEach calls f with each item, in order and so many at a time. All calls together have
// requestBudget.
func forEach[T any](ctx context.Context, items []T, width int, f func(context.Context, T)) {
	ctx, cancel := context.WithTimeout(ctx, requestBudget)
	defer cancel()
	var group sync.WaitGroup
	slots := make(chan struct{}, width)
	for _, item := range items {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			f(ctx, item)
		})
	}
	group.Wait()
}
