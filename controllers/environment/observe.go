package environment

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// observe compares the servers with the last pass and counts the changes.
func (m *memory) observe(s snapshot, metrics *poolMetrics) {
	namespace, name := s.env.Namespace, s.env.Name
	servers := make(map[types.UID]serverMemory, len(s.pods))
	for i := range s.pods {
		pod := &s.pods[i]
		known, isKnown := m.servers[pod.UID]
		if pods.IsReady(pod) && !known.wasReady {
			known.wasReady = true
			if m.observed {
				since := pods.Condition(pod, corev1.PodReady).LastTransitionTime.Sub(pod.CreationTimestamp.Time)
				metrics.timeToReady.WithLabelValues(namespace, name).Observe(max(0, since.Seconds()))
			}
		}
		if report, answered := s.reports[pod.Name]; answered {
			// A server that restarts counts from 0. Failures before the first pass aren't counted.
			if before := known.unjudged; isKnown && report.JudgeFailures > before {
				metrics.unjudged.WithLabelValues(namespace, name).Add(float64(report.JudgeFailures - before))
			}
			known.active, known.unjudged = activeSessions(report), report.JudgeFailures
			switch {
			case known.active > 0:
				known.idleSince = time.Time{}
			case known.idleSince.IsZero():
				known.idleSince = s.now
			}
		}
		known.missed = false
		servers[pod.UID] = known
	}
	// Keep a pod for one more pass, because it may leave the cache before its deletion event.
	for uid, known := range m.servers {
		if _, exists := servers[uid]; !exists && !known.missed {
			known.missed = true
			servers[uid] = known
		}
	}
	m.servers, m.observed = servers, true
}

// activeSessions returns the open sessions that a server reports, within bounds.
func activeSessions(report score.Report) int64 {
	return min(max(0, report.Sessions.Active), maxSessions)
}

// podEvents enqueues a pod's pool. It stores deleted pods, because their termination messages can't
// be read later.
func (r *Reconciler) podEvents() handler.EventHandler {
	enqueue := handler.EnqueueRequestsFromMapFunc(poolOfPod)
	return handler.Funcs{
		CreateFunc: enqueue.Create, UpdateFunc: enqueue.Update, GenericFunc: enqueue.Generic,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if pod, isPod := e.Object.(*corev1.Pod); isPod {
				for _, pool := range poolOfPod(ctx, pod) {
					r.memories.recordDeleted(pool.NamespacedName, pod)
				}
			}
			enqueue.Delete(ctx, e, queue)
		},
	}
}

// drainReportOf reads the drain report from the pod's termination message. Its numbers are bounded,
// because users choose the image.
func drainReportOf(pod *corev1.Pod) (report score.DrainReport, found bool) {
	message := pods.Terminated(pod, pods.ServerContainer).Message
	if json.Unmarshal([]byte(message), &report) != nil {
		return score.DrainReport{}, false
	}
	report.Sessions = min(max(0, report.Sessions), maxSessions)
	report.Cut = min(max(0, report.Cut), maxSessions)
	report.Seconds = min(max(0, report.Seconds), int64((7 * 24 * time.Hour).Seconds()))
	return report, true
}

// reportTerminated counts the servers that have terminated, and emits events for those that had
// sessions.
func (r *Reconciler) reportTerminated(env *v1alpha1.CustomerSupportEnv, m *memory) {
	namespace, name := env.Namespace, env.Name
	emit := func(kind, reason, format string, args ...any) {
		r.recorder.Eventf(env, nil, kind, reason, "Reconcile", format, args...)
	}
	for _, pod := range r.memories.takeDeleted(client.ObjectKeyFromObject(env)) {
		report, found := drainReportOf(pod)
		lost := report.Cut
		if found {
			r.metrics.drains.WithLabelValues(namespace, name).Observe(float64(report.Seconds))
		} else {
			lost = m.servers[pod.UID].active
		}
		r.metrics.cut.WithLabelValues(namespace, name).Add(float64(lost))
		took := time.Duration(report.Seconds) * time.Second
		switch {
		case !found && lost > 0:
			emit(corev1.EventTypeWarning, v1alpha1.ReasonSessionsCut, "Server %s ended without a drain report. It "+
				"last reported %d open sessions. Check its node and its memory limit.", pod.Name, lost)
		case report.Cut > 0:
			emit(corev1.EventTypeWarning, v1alpha1.ReasonSessionsCut, "Server %s cut %d of its %d sessions after %s. "+
				"To let all sessions end, raise spec.drainTimeoutSeconds above spec.sessions.maxDurationSeconds.",
				pod.Name, report.Cut, max(report.Sessions, report.Cut), took)
		case report.Sessions > 0:
			emit(corev1.EventTypeNormal, v1alpha1.ReasonDrained, "Server %s drained its %d sessions in %s.", pod.Name,
				report.Sessions, took)
		}
	}
}
