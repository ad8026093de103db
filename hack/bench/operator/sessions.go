package operator

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// measureSessions fills the servers of autoscaled pools with sessions at once, waits for the
// decision to add servers, and then has sessions end and begin all the time.
func measureSessions(ctx context.Context, r *rig, s settings) ([]figure, error) {
	if err := r.startOperator(ctx); err != nil {
		return nil, err
	}
	r.tell("creating %d autoscaled pools of %d pods each", s.Pools, s.PodsPerPool)
	if err := r.createPools(ctx, s); err != nil {
		return nil, err
	}
	r.tell("waiting for the last events")
	if err := r.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	var sessions int64
	var decided time.Duration
	fill, err := r.during(ctx, func(ctx context.Context) error {
		began := time.Now()
		sessions = r.fleet.fill()
		r.tell("%d sessions are open", sessions)
		err := r.awaitDecision(ctx, s)
		decided = time.Since(began)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.tell("all pools have more servers after %s; waiting for these", decided.Round(time.Millisecond))
	if err := r.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	r.tell("sessions end and begin for %s", s.Load.Duration)
	r.fleet.busy.Store(true)
	load, err := r.during(ctx, sleepFor(s.Load.Duration))
	if err != nil {
		return nil, err
	}
	used, err := r.operator.usage()
	if err != nil {
		return nil, err
	}
	return sessionFigures(s, sessions, decided, fill, load, used), nil
}

// sessionFigures are the figures of sessions that were opened, and of those that ended and began
// during the load.
func sessionFigures(s settings, sessions int64, decided time.Duration, fill, load mark, used usage) []figure {
	writes := fill.operator.Sum() + load.operator.Sum()
	return []figure{
		{"sessions", float64(sessions), "sessions", fmt.Sprintf("reported by %d pods of %d pools",
			s.Pools*int(s.PodsPerPool), s.Pools)},
		{"autoscaling decision", decided.Seconds(), "s",
			"from full servers to more servers in the Deployments of all pools"},
		{"operator's writes a session", writes / float64(sessions), "requests",
			fmt.Sprintf("%.0f writes; when they opened: %s; while they changed for %s: %s", writes, fill.operator,
				s.Load.Duration, load.operator)},
		{
			"reconcile p99",
			toMilliseconds(load.passes[poolController].quantile(0.99)),
			"ms",
			formatPasses(load, poolController),
		},
		{"manager memory", used.peakMiB, "MiB", "resident at most"},
		{"CPU under load", 100 * load.cpuSeconds / s.Load.Seconds(), "%", "of a core"},
	}
}

// awaitDecision waits until the Deployment of every pool has more replicas than at first.
func (r *rig) awaitDecision(ctx context.Context, s settings) error {
	const often = 100 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, often, true, func(ctx context.Context) (bool, error) {
		deployments := &appsv1.DeploymentList{}
		if err := r.client.List(ctx, deployments, client.HasLabels{v1alpha1.LabelEnvironment}); err != nil {
			return false, err
		}
		return countScaledUp(deployments.Items, s.PodsPerPool) == s.Pools, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for more servers: %w", err)
	}
	return nil
}

// countScaledUp counts the Deployments with more replicas.
func countScaledUp(deployments []appsv1.Deployment, than int32) (count int) {
	for _, d := range deployments {
		if ptr.Deref(d.Spec.Replicas, 0) > than {
			count++
		}
	}
	return count
}
