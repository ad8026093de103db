package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/hack/apiwrites"
)

const (
	reconcileSeconds = "controller_runtime_reconcile_time_seconds"
	poolController   = "environment"
	// sessionsPerPod is each simulated server's capacity.
	sessionsPerPod = 2000
	// The simulated servers grade with these.
	scenarioDigest, graderVersion, judgeName = "sha256:5ca1e", "scale", "offline-v1"
)

func scenarioID(i int) string { return fmt.Sprintf("S%04d", i) }

// mark is a snapshot of the counters.
type mark struct {
	server, operator apiwrites.Counts
	passes           map[string]buckets // by controller
	cpuSeconds       float64            // of the operator
	peakMiB          float64            // of the operator's processes that were killed
}

func (r *rig) mark(ctx context.Context) (mark, error) {
	server, err := serverWrites(ctx, r.api)
	if err != nil {
		return mark{}, err
	}
	own, err := r.ownWrites()
	if err != nil {
		return mark{}, err
	}
	m := mark{server: server, operator: own}
	m.passes, m.cpuSeconds, err = r.work(ctx)
	return m, err
}

// ownWrites counts what the operator has written so far, and all before it.
func (r *rig) ownWrites() (apiwrites.Counts, error) {
	log, err := os.Open(filepath.Join(r.folder, auditLog))
	if err != nil {
		return nil, fmt.Errorf("counting the operator's writes: %w", err)
	}
	defer log.Close()
	return auditedWrites(log)
}

// auditedWrites counts the requests of an audit log. Unlike the operator's own metrics, the log
// has the writes of an operator that was killed.
func auditedWrites(log io.Reader) (apiwrites.Counts, error) {
	counts := apiwrites.Counts{}
	for decoder := json.NewDecoder(log); ; {
		var event struct {
			Verb      string
			ObjectRef struct{ Resource, Subresource string }
		}
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF):
			return counts, nil
		case err != nil:
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		counts[event.Verb+" "+path.Join(event.ObjectRef.Resource, event.ObjectRef.Subresource)]++
	}
}

// work is what the operator has done, and all before it that were killed.
func (r *rig) work(ctx context.Context) (done map[string]buckets, cpuSeconds float64, err error) {
	own, err := r.operator.scrape(ctx)
	if err != nil {
		return nil, 0, err
	}
	used, err := r.operator.usage()
	if err != nil {
		return nil, 0, err
	}
	done = passesOf(own)
	for controller, b := range r.killed.passes {
		done[controller] = done[controller].plus(b)
	}
	return done, used.cpuSeconds + r.killed.cpuSeconds, nil
}

func passesOf(own samples) map[string]buckets {
	passes := map[string]buckets{}
	for _, controller := range []string{poolController, runController} {
		passes[controller] = bucketsOf(own, reconcileSeconds, "controller", controller)
	}
	return passes
}

func (m mark) since(earlier mark) mark {
	passes := map[string]buckets{}
	for controller, b := range m.passes {
		passes[controller] = b.since(earlier.passes[controller])
	}
	return mark{
		server: m.server.Since(earlier.server), operator: m.operator.Since(earlier.operator), passes: passes,
		cpuSeconds: m.cpuSeconds - earlier.cpuSeconds,
	}
}

// during counts writes and reconciles while do runs.
func (r *rig) during(ctx context.Context, do func(context.Context) error) (mark, error) {
	before, err := r.mark(ctx)
	if err != nil {
		return mark{}, err
	}
	if err := do(ctx); err != nil {
		return mark{}, err
	}
	after, err := r.mark(ctx)
	return after.since(before), err
}

// measurePools creates the pools, leaves them alone, has their sessions change, and starts the
// operator anew.
func measurePools(ctx context.Context, r *rig, s settings) ([]figure, error) {
	if err := r.startOperator(ctx); err != nil {
		return nil, err
	}
	pods := s.Pools * int(s.PodsPerPool)
	r.tell("creating %d pools of %d pods each", s.Pools, s.PodsPerPool)
	began := time.Now()
	creation, err := r.during(ctx, func(ctx context.Context) error { return r.createPools(ctx, s) })
	if err != nil {
		return nil, err
	}
	ready := time.Since(began)
	r.tell("%d pods are ready; waiting for the last events", pods)
	if err := r.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	r.tell("at rest for %s", s.Rest.Duration)
	rest, err := r.during(ctx, sleepFor(s.Rest.Duration))
	if err != nil {
		return nil, err
	}
	r.tell("%.0f writes at rest; under load for %s", rest.server.Sum(), s.Load.Duration)
	r.fleet.busy.Store(true)
	load, err := r.during(ctx, sleepFor(s.Load.Duration))
	if err != nil {
		return nil, err
	}
	r.fleet.busy.Store(false)
	used, err := r.operator.usage()
	if err != nil {
		return nil, err
	}
	poll, fresh, err := r.restart(ctx)
	if err != nil {
		return nil, err
	}
	return []figure{
		{"pools ready", ready.Seconds(), "s", fmt.Sprintf("%d pools, %d pods", s.Pools, pods)},
		{"writes to create", creation.server.Sum(), "requests", "of everybody: " + creation.server.String()},
		{"operator's writes to create", creation.operator.Sum(), "requests", creation.operator.String()},
		{"reconcile p99 while created", toMilliseconds(creation.passes[poolController].quantile(0.99)), "ms",
			formatPasses(creation, poolController)},
		{"writes at rest", rest.server.Sum(), "requests", fmt.Sprintf("in %s: %s", s.Rest.Duration, rest.server)},
		{
			"reconcile p99 at rest",
			toMilliseconds(rest.passes[poolController].quantile(0.99)),
			"ms",
			formatPasses(rest, poolController),
		},
		{
			"reconcile p50",
			toMilliseconds(load.passes[poolController].quantile(0.50)),
			"ms",
			formatPasses(load, poolController),
		},
		{"reconcile p99", toMilliseconds(load.passes[poolController].quantile(0.99)), "ms",
			fmt.Sprintf("%s, the polls of /stats (%s to answer) included", formatPasses(load, poolController),
				s.AnswerDelay.Duration)},
		{"writes under load", load.server.Sum(), "requests", fmt.Sprintf("in %s: %s", s.Load.Duration, load.server)},
		{
			"full poll",
			toMilliseconds(poll.took().Seconds()),
			"ms",
			fmt.Sprintf("all %d pods, by an operator that starts and uses "+
				"%.2g s of CPU for it", poll.pods, fresh.cpuSeconds),
		},
		{"manager memory", max(used.peakMiB, fresh.peakMiB), "MiB",
			fmt.Sprintf("resident at most: %.0f MiB, and %.0f MiB after the start", used.peakMiB, fresh.peakMiB)},
		{"CPU at rest", 100 * rest.cpuSeconds / s.Rest.Seconds(), "%", "of a core"},
		{"CPU under load", 100 * load.cpuSeconds / s.Load.Seconds(), "%", "of a core"},
	}, nil
}

func formatPasses(m mark, controller string) string {
	return fmt.Sprintf("%.0f passes", m.passes[controller].count())
}

func toMilliseconds(seconds float64) float64 { return seconds * 1000 }

// sleepFor waits.
func sleepFor(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// createPools creates all pools and waits until each of them is rolled out and knows what it
// offers.
func (r *rig) createPools(ctx context.Context, s settings) error {
	const perNamespace = 20
	for i := range s.Pools {
		namespace := fmt.Sprintf("pools-%02d", i/perNamespace)
		if i%perNamespace == 0 {
			if err := r.createNamespace(ctx, namespace); err != nil {
				return err
			}
		}
		pool := &v1alpha1.CustomerSupportEnv{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pool-%03d", i)},
			Spec:       poolSpec(s),
		}
		if err := r.client.Create(ctx, pool); err != nil {
			return fmt.Errorf("creating pools: %w", err)
		}
	}
	return r.awaitPools(ctx, s)
}

// poolSpec is the spec of all pools, which are autoscaled if the settings have a maximum.
func poolSpec(s settings) v1alpha1.CustomerSupportEnvSpec {
	spec := v1alpha1.CustomerSupportEnvSpec{
		Sessions: v1alpha1.SessionLimits{PerPod: sessionsPerPod}, DrainTimeoutSeconds: new(int32(5)),
	}
	if s.MaxReplicas == 0 {
		spec.Replicas = new(s.PodsPerPool)
	} else {
		spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: new(s.PodsPerPool), MaxReplicas: s.MaxReplicas}
	}
	return spec
}

func (r *rig) awaitPools(ctx context.Context, s settings) error {
	told := time.Now()
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		pools := &v1alpha1.CustomerSupportEnvList{}
		if err := r.client.List(ctx, pools); err != nil {
			return false, err
		}
		settled := 0
		for _, pool := range pools.Items {
			if isSettled(pool, s.PodsPerPool) {
				settled++
			}
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			r.tell("%d of %d pools are ready", settled, s.Pools)
		}
		return settled == s.Pools, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pools: %w", err)
	}
	return nil
}

// awaitQuiet waits until nothing has been written for some seconds. Events trail behind: clients
// delay them to limit the load on the API server.
func (r *rig) awaitQuiet(ctx context.Context) error {
	const quiet, most = 5 * time.Second, 2 * time.Minute
	before, changed := -1.0, time.Now()
	err := wait.PollUntilContextTimeout(ctx, time.Second, most, true, func(ctx context.Context) (bool, error) {
		counts, err := serverWrites(ctx, r.api)
		if err != nil {
			return false, err
		}
		if now := counts.Sum(); now != before {
			before, changed = now, time.Now()
		}
		return time.Since(changed) >= quiet, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for writes to end: %w", err)
	}
	return nil
}

// isSettled reports whether the pool's status is complete.
func isSettled(pool v1alpha1.CustomerSupportEnv, pods int32) bool {
	sessions := pool.Status.Sessions
	return ptr.Deref(pool.Status.ReadyReplicas, 0) == pods && sessions != nil &&
		sessions.Capacity == int64(pods)*sessionsPerPod && len(pool.Status.Tasks) > 0 &&
		meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionAvailable) &&
		meta.IsStatusConditionFalse(pool.Status.Conditions, v1alpha1.ConditionProgressing)
}

// restart ends the operator and starts it again: it then polls all pods as fast as it can. It
// returns that round, and what the new process has used when it ends.
func (r *rig) restart(ctx context.Context) (*sweep, usage, error) {
	r.tell("starting the operator anew")
	if err := r.stopOperator(); err != nil {
		return nil, usage{}, err
	}
	poll := r.fleet.beginSweep()
	if err := r.startOperator(ctx); err != nil {
		return nil, usage{}, err
	}
	select {
	case <-poll.done:
	case <-ctx.Done():
		return nil, usage{}, fmt.Errorf("waiting for the operator to ask every pod: %w", ctx.Err())
	}
	used, err := r.operator.usage()
	if err != nil {
		return nil, usage{}, err
	}
	return poll, used, r.stopOperator()
}

// beginSweep waits for every pod that runs now to be asked once more.
func (f *fleet) beginSweep() *sweep {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &sweep{missing: map[string]bool{}, done: make(chan struct{}), pods: len(f.pods)}
	for _, server := range f.pods {
		s.missing[server.Addr] = true
	}
	f.sweep = s
	return s
}
