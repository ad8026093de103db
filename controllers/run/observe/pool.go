package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// readPool reads the pool if it admits the run.
func (r *Reader) readPool(ctx context.Context, s *snapshot.Snapshot) error {
	env := &v1alpha1.CustomerSupportEnv{}
	err := r.Cache.Get(ctx, evaluation.PoolOf(s.Run), env)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the pool: %w", err)
	}
	allowed := env.Namespace == s.Run.Namespace
	if !allowed {
		if allowed, err = r.admitsNamespace(ctx, env, s.Run.Namespace); err != nil {
			return err
		}
	}
	s.Revoked = !allowed
	if allowed {
		s.Env = env
	}
	return nil
}

// admitsNamespace reports whether a pool admits runs of a namespace. An invalid selector, which the
// pool's status reports, admits no other namespace.
func (r *Reader) admitsNamespace(ctx context.Context, env *v1alpha1.CustomerSupportEnv, namespace string) (bool,
	error) {
	space := &metav1.PartialObjectMetadata{}
	space.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if env.Spec.Access.AllowedNamespaces.From == v1alpha1.SelectedNamespaces {
		// A cache would watch all namespaces, which needs a right on the whole cluster.
		if err := r.Direct.Get(ctx, types.NamespacedName{Name: namespace}, space); err != nil {
			return false, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
		}
	}
	allowed, err := access.AllowsNamespace(env, namespace, space.Labels)
	if err != nil {
		logf.FromContext(ctx).Info("Pool admits no other namespace", "reason", err.Error())
	}
	return allowed, nil
}

// readReport reads the report of an available pool from the first ready server whose report matches
// the pool's status, which not all do during a rolling update.
func (r *Reader) readReport(ctx context.Context, s *snapshot.Snapshot) error {
	if s.PoolState() != snapshot.PoolReady {
		return nil
	}
	// The report must be of the grader that this version of the pool's status describes.
	version := s.Run.ResourceVersion + " " + s.Env.ResourceVersion
	answer, err := r.pollServers(ctx, s, version, func(ctx context.Context) Polled { return r.pollReport(ctx, s) })
	s.Report, s.ReportErr, s.ImageDigests = answer.report, answer.reportErr, answer.digests
	return err
}

func (r *Reader) pollReport(ctx context.Context, s *snapshot.Snapshot) (p Polled) {
	p.report, p.digests, p.reportErr = r.fetchReport(ctx, s.Env, !evaluation.IsExternal(s.Run))
	return p
}

// fetchReport returns the report of a server, which understands runners if the run has any, and the
// digests of the image that the ready servers run.
func (r *Reader) fetchReport(ctx context.Context, env *v1alpha1.CustomerSupportEnv,
	played bool) (*score.Report, []string, error) {
	servers, err := objects.ListServers(ctx, r.Cache, client.ObjectKeyFromObject(env))
	if err != nil {
		return nil, nil, err
	}
	servers = slices.DeleteFunc(servers, func(pod corev1.Pod) bool {
		return !pods.IsReady(&pod) || pod.Status.PodIP == "" || !pod.DeletionTimestamp.IsZero()
	})
	secrets, err := r.Keys.Secrets(ctx, client.ObjectKeyFromObject(env), env.Status.LedgerPublicKey)
	if err != nil {
		return nil, nil, err
	}
	failure := errors.New("no server is ready")
	ctx, cancel := context.WithTimeout(ctx, requestBudget)
	defer cancel()
	for i := range servers {
		pod := &servers[i]
		report, err := r.Pools.Report(ctx, pod.Status.PodIP, secrets.Operations)
		if err == nil {
			err = checkGrader(env, report)
		}
		if err == nil && played && report.Protocol < score.Protocol {
			err = errOldServer
		}
		if err == nil {
			return &report, pods.ImageDigests(servers, pods.ServerContainer), nil
		}
		failure = fmt.Errorf("server %s: %w", pod.Name, err)
	}
	return nil, nil, failure
}

// errOldServer means that a server would refuse the run's runners.
var errOldServer = errors.New("it is of a release before the operator's, and doesn't understand its runners; the run " +
	"begins when a server of this release is ready, for which spec.image of the pool must be unset or name this " +
	"release")

// checkGrader returns an error if a server's scenarios or grader differ from its pool's status.
func checkGrader(env *v1alpha1.CustomerSupportEnv, report score.Report) error {
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
