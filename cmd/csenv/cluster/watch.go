package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/csenv/csenv/api/v1alpha1"
)

const (
	// reconnectInterval is how long a watcher waits before it reads the kubeconfig again.
	reconnectInterval = 5 * time.Second
	// firstRetry and longestRetry bound the wait before another request after an error.
	firstRetry, longestRetry = time.Second, 10 * time.Second
)

// Watcher keeps the pools and runs of a namespace, or of all namespaces, in memory. It goes on
// after errors, which the snapshots report.
type Watcher struct {
	flags     *Flags
	namespace string
	pools     *mirror[*v1alpha1.CustomerSupportEnv]
	runs      *mirror[*v1alpha1.EvaluationRun]
	connected atomic.Pointer[Connection]
	ready     chan struct{}
}

// Snapshot is what a watcher has read. The objects are shared, so nobody may change them.
type Snapshot struct {
	Pools []*v1alpha1.CustomerSupportEnv
	Runs  []*v1alpha1.EvaluationRun
	// Problem says why the objects aren't up to date, nil if they are.
	Problem error
	// Read is the time at which the objects were up to date, zero if none have been read.
	Read time.Time
}

// Watch watches pools and runs until the context ends. It calls changed after each change, from
// several goroutines. An error is about the kubeconfig.
func (c *Flags) Watch(ctx context.Context, allNamespaces bool, changed func()) (*Watcher, error) {
	connection, err := c.Connect()
	if err != nil {
		return nil, err
	}
	w := &Watcher{flags: c, namespace: connection.Namespace, ready: make(chan struct{}),
		pools: newMirror(changed, func(*v1alpha1.CustomerSupportEnv) {}), runs: newMirror(changed, slimRun)}
	if allNamespaces {
		w.namespace = ""
	}
	go func() {
		for _, known := range []chan struct{}{w.pools.known, w.runs.known} {
			<-known
		}
		close(w.ready)
	}()
	w.connected.Store(connection)
	go w.watchObjects(ctx, connection)
	return w, nil
}

// Connection returns the latest connection.
func (w *Watcher) Connection() *Connection { return w.connected.Load() }

// Ready is closed when the first snapshot has objects or a problem.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Snapshot returns what is known.
func (w *Watcher) Snapshot() Snapshot {
	pools, poolsRead, poolsErr := w.pools.copyObjects()
	runs, runsRead, runsErr := w.runs.copyObjects()
	s := Snapshot{Pools: pools, Runs: runs, Read: poolsRead}
	if runsRead.Before(poolsRead) {
		s.Read = runsRead
	}
	switch {
	case poolsErr != nil && runsErr != nil:
		s.Problem = ExplainError(poolsErr, "reading pools and runs")
	case poolsErr != nil:
		s.Problem = ExplainError(poolsErr, "reading pools")
	case runsErr != nil:
		s.Problem = ExplainError(runsErr, "reading runs")
	}
	return s
}

// watchObjects watches. If the cluster rejects the credentials it reads the kubeconfig again,
// because they may have been renewed.
func (w *Watcher) watchObjects(ctx context.Context, connection *Connection) {
	// The reflectors would write their errors to standard error.
	ctx = logr.NewContext(ctx, logr.Discard())
	for {
		w.connected.Store(connection)
		attempt, end := context.WithCancel(ctx)
		var watching sync.WaitGroup
		if api, err := connection.typedClient(); err != nil {
			w.noteFailure(err)
		} else {
			watching.Go(func() { w.pools.followObjects(attempt, end, api, "customersupportenvs", w.namespace) })
			watching.Go(func() { w.runs.followObjects(attempt, end, api, "evaluationruns", w.namespace) })
		}
		watching.Wait()
		end()
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reconnectInterval):
			}
			renewed, err := w.flags.Connect()
			if err != nil {
				w.noteFailure(err)
				continue
			}
			connection, again = renewed, true
		}
	}
}

func (w *Watcher) noteFailure(err error) {
	w.pools.noteFailure(err)
	w.runs.noteFailure(err)
}

// typedClient returns a client of csenv's kinds. It needs no discovery, so missing CRDs are an
// error of the single request.
func (c *Connection) typedClient() (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	// A watch lasts minutes. Each list has its own timeout.
	config.Timeout = 0
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(c.scheme).WithoutConversion()
	api, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return api, nil
}

// mirror has the objects of a kind.
type mirror[T Object] struct {
	changed func()
	slim    func(T)
	// known is closed when there are objects or an error.
	known chan struct{}
	once  sync.Once

	mu      sync.RWMutex
	objects map[types.NamespacedName]T
	// err is the reason why the objects aren't up to date since the time read.
	err  error
	read time.Time
}

func newMirror[T Object](changed func(), slim func(T)) *mirror[T] {
	return &mirror[T]{changed: changed, slim: slim, known: make(chan struct{}), objects: map[types.NamespacedName]T{}}
}

// followObjects lists and watches until the context ends or the cluster rejects the credentials.
func (m *mirror[T]) followObjects(ctx context.Context, unauthorized func(), api rest.Interface, resource,
	namespace string) {
	requests := cache.NewListWatchFromClient(api, resource, namespace, fields.Everything())
	failed := func(err error) {
		if err == nil || ctx.Err() != nil {
			return
		}
		m.noteFailure(err)
		if apierrors.IsUnauthorized(err) {
			unauthorized()
		}
	}
	observed := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			list, err := requests.ListWithContext(ctx, options)
			failed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := requests.WatchWithContext(ctx, options)
			// client-go hides timeouts and closed connections behind a watch without events.
			if err == nil && reflect.TypeOf(events) == reflect.TypeOf(watch.NewEmptyWatch()) {
				address := api.Get().URL().String()
				events, err = nil, &url.Error{Op: http.MethodGet, URL: address, Err: io.ErrUnexpectedEOF}
			}
			failed(err)
			if err == nil && options.SendInitialEvents == nil {
				m.noteRecovery()
			}
			return events, err
		},
	}
	var object T
	logger := logr.Discard()
	cache.NewReflectorWithOptions(observed, object, m, cache.ReflectorOptions{Logger: &logger, Name: resource,
		Backoff: &wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.2, Cap: longestRetry, Steps: 8},
	}).RunWithContext(ctx)
}

func (m *mirror[T]) noteFailure(err error) {
	// The parameters of the request are of no use to readers.
	if request := (*url.Error)(nil); errors.As(err, &request) {
		short := *request
		if address, parsed := url.Parse(request.URL); parsed == nil {
			short.URL = address.Scheme + "://" + address.Host
		}
		err = &short
	}
	m.mu.Lock()
	if m.err == nil && !m.read.IsZero() {
		m.read = time.Now()
	}
	same := m.err != nil && m.err.Error() == err.Error()
	m.err = err
	m.mu.Unlock()
	m.once.Do(func() { close(m.known) })
	if !same {
		m.changed()
	}
}

func (m *mirror[T]) noteRecovery() {
	m.mu.Lock()
	failed := m.err != nil
	m.err = nil
	m.mu.Unlock()
	if failed {
		m.changed()
	}
}

func (m *mirror[T]) copyObjects() ([]T, time.Time, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make([]T, 0, len(m.objects))
	for _, object := range m.objects {
		all = append(all, object)
	}
	if m.err == nil && !m.read.IsZero() {
		return all, time.Now(), nil
	}
	return all, m.read, m.err
}

// Add implements cache.ReflectorStore.
func (m *mirror[T]) Add(object any) error { return m.Update(object) }

// Update implements cache.ReflectorStore.
func (m *mirror[T]) Update(object any) error {
	changed, ok := object.(T)
	if !ok {
		return fmt.Errorf("%T is not of the watched kind", object)
	}
	slimObject(changed, m.slim)
	m.mu.Lock()
	m.objects[NameOf(changed)] = changed
	m.mu.Unlock()
	m.changed()
	return nil
}

// Delete implements cache.ReflectorStore.
func (m *mirror[T]) Delete(object any) error {
	deleted, ok := object.(T)
	if !ok {
		return fmt.Errorf("%T is not of the watched kind", object)
	}
	m.mu.Lock()
	delete(m.objects, NameOf(deleted))
	m.mu.Unlock()
	m.changed()
	return nil
}

// Replace implements cache.ReflectorStore.
func (m *mirror[T]) Replace(list []any, _ string) error {
	objects := make(map[types.NamespacedName]T, len(list))
	for _, item := range list {
		object, ok := item.(T)
		if !ok {
			return fmt.Errorf("%T is not of the watched kind", item)
		}
		slimObject(object, m.slim)
		objects[NameOf(object)] = object
	}
	m.mu.Lock()
	m.objects, m.err, m.read = objects, nil, time.Now()
	m.mu.Unlock()
	m.once.Do(func() { close(m.known) })
	m.changed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (m *mirror[T]) Resync() error { return nil }

// slimObject removes what no page shows, so that thousands of runs take little memory.
func slimObject[T Object](object T, slim func(T)) {
	object.SetManagedFields(nil)
	if annotations := object.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}
	slim(object)
}

func slimRun(run *v1alpha1.EvaluationRun) {
	run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), "EvaluationRun"
	if run.Status.Rollouts != nil {
		run.Status.Rollouts.Ledger, run.Status.Rollouts.Servers = "", nil
	}
	if run.Status.Shards != nil {
		run.Status.Shards.Flawless = nil
	}
}
