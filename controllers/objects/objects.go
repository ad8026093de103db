// Package objects has what reconcilers share of the use of their client. The command line doesn't
// import it: the client registers all kinds of Kubernetes, which are a fifth of a program.
package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
)

// ConflictDelay gives the cache time to receive the write that won a conflict.
const ConflictDelay = time.Second

// ListServers lists the pods of a pool, ordered by name.
func ListServers(ctx context.Context, reader client.Reader, pool types.NamespacedName) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(pool.Namespace),
		client.MatchingLabels(pods.Selector(pool.Name))); err != nil {
		return nil, fmt.Errorf("listing the pool's pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// NewKeyReader returns a reader of the ledger keys of pools. The reader of Secrets must have no
// cache.
func NewKeyReader(secrets client.Reader) *keys.Reader {
	return keys.NewReader(func(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		return secret, secrets.Get(ctx, name, secret)
	})
}

// IgnoreExpected converts the errors of concurrent writes to a result. A conflict is retried
// without logging an error. A deleted object, or one in a terminating namespace, is ignored.
func IgnoreExpected(err error) (reconcile.Result, error) {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return reconcile.Result{}, nil
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: ConflictDelay}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}
