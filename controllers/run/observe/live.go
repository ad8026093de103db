package observe

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
)

// readLive reads the live counts of a run that is being played.
func (r *Reader) readLive(ctx context.Context, s *Snapshot) error {
	if r.Live == nil || s.Env == nil || s.Run.Status.StartTime == nil || IsSuspended(s.Run) {
		return nil
	}
	list, err := objects.Servers(ctx, r.Cache, client.ObjectKeyFromObject(s.Env))
	if err != nil {
		return err
	}
	pool := client.ObjectKeyFromObject(s.Env)
	secrets, err := r.Keys.Secrets(ctx, pool, s.Env.Status.LedgerPublicKey)
	if err != nil {
		logf.FromContext(ctx).V(1).Info("Progress not read", "reason", err.Error())
		return nil
	}
	var servers []string
	for i := range list {
		if pods.IsRunning(&list[i]) && len(servers) < maxPolled {
			servers = append(servers, list[i].Status.PodIP)
		}
	}
	s.Live = r.Live.figures(ctx, pool, secrets.Operations, servers, s.Run.UID, ChooseInterval(s.Run, s.Now), s.Now)
	return nil
}

// ChooseInterval is the time between two writes of a run's progress.
func ChooseInterval(run *v1alpha1.EvaluationRun, now time.Time) time.Duration {
	return min(max(now.Sub(run.Status.StartTime.Time)/showParts, pollInterval), maxShowInterval)
}
