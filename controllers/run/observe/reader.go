package observe

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/stats"
)

// readConfigMap reads a ConfigMap that the cache has. The cache holds only metadata, because users
// may create any number of ConfigMaps with our labels. The contents that were read last are kept,
// so that the passes over a run don't read them again.
func (r *Reader) readConfigMap(ctx context.Context, key types.NamespacedName, object *corev1.ConfigMap) error {
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := r.Metadata.Get(ctx, key, known); err != nil {
		return err
	}
	if kept, ok := r.Contents.Get(version{key, known.UID, known.ResourceVersion}); ok {
		*object = *kept
		return nil
	}
	if err := r.Direct.Get(ctx, key, object); err != nil {
		return err
	}
	r.Remember(object)
	return nil
}

// pollServers polls servers in the background. Its answer belongs to one version of what it is for.
func (r *Reader) pollServers(ctx context.Context, s *snapshot.Snapshot, version string,
	requests func(context.Context) Polled) (Polled, error) {
	q := polling.Question{Object: client.ObjectKeyFromObject(s.Run), Version: version, Pool: evaluation.PoolOf(s.Run)}
	answer, known := r.Polls.Ask(ctx, q, requests)
	if !known {
		return Polled{}, ErrPolling
	}
	return answer, nil
}

// Reader reads what a pass needs. It has no client that writes.
type Reader struct {
	Cache    client.Reader
	Metadata client.Reader // of ConfigMaps: the cache
	Direct   client.Reader // past the cache, where a stale answer could lose a summary
	Pools    PoolReader
	Polls    *polling.Poller[Polled]
	Keys     keys.Source
	Live     *LivePoller
	Contents *Contents
	Clock    clock.PassiveClock
	Version  string // of the operator, for a run's provenance
	heard    heard
}

// New returns a reader of the manager's cluster.
func New(mgr ctrl.Manager, version string) *Reader {
	reader := stats.NewReader()
	polls := polling.New[Polled](concurrentPolls)
	return &Reader{
		Cache:    mgr.GetClient(),
		Metadata: mgr.GetCache(),
		Direct:   mgr.GetAPIReader(),
		Pools:    reader,
		Keys:     objects.NewKeyReader(mgr.GetAPIReader()),
		Polls:    polls,
		Live:     NewLivePoller(reader, polls.Do),
		Contents: NewContents(),
		Clock:    clock.RealClock{},
		Version:  version,
	}
}

// readOwn reads one of the run's own objects and reports whether it exists. Until the run has
// ended, objects that the cache doesn't have are read past it: they may have just been created, or
// may belong to another owner, whose objects the cache doesn't contain.
func (r *Reader) readOwn(ctx context.Context, s *snapshot.Snapshot, name string, object client.Object) (bool, error) {
	key := types.NamespacedName{Namespace: s.Run.Namespace, Name: name}
	var err error
	if configMap, ok := object.(*corev1.ConfigMap); ok {
		err = r.readConfigMap(ctx, key, configMap)
	} else {
		err = r.Cache.Get(ctx, key, object)
	}
	if apierrors.IsNotFound(err) && !evaluation.HasEnded(s.Run.Status.Conditions) &&
		s.PoolState() == snapshot.PoolReady {
		err = r.Direct.Get(ctx, key, object)
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %T %s: %w", object, name, err)
	}
	if err == nil && !metav1.IsControlledBy(object, s.Run) {
		s.Taken = append(s.Taken, fmt.Sprintf("%s %s", strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1."), name))
		return false, nil
	}
	return err == nil, nil
}
