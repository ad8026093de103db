package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
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

// A server that is told to go serves its sessions out, so no scale-down has to lose one. What is
// done here keeps sessions from having to hurry at all: the servers without any go first.
//
// A ReplicaSet chooses which pods it removes: those that aren't ready, then those of the least
// controller.kubernetes.io/pod-deletion-cost. So just before the Deployment's number goes down,
// each busy pod gets its number of sessions as its cost, in the same pass and first: if one of them
// can't be written, the number stays. The costs stay as they were afterwards. Nothing reads them
// until the next time, which sets them anew.
//
// A full server isn't ready, and would go before any idle one. Autoscaling never asks for that (see
// removable); where somebody lowers spec.replicas, the number waits for a while until the server
// has a free slot.

const (
	// deletionCost is what a ReplicaSet compares. It is 0 where it isn't set.
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	// safeToEvict is what the cluster autoscaler reads before it empties a node. The template says
	// "false", for the cluster autoscaler gives pods ten minutes at most, whatever their grace
	// period. A pod that has been idle for idleBeforeEviction says "true" until it is played again:
	// two writes for so long a time at most, and none in a busy pool.
	safeToEvict        = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	idleBeforeEviction = 10 * time.Minute
	// fullPatience is how long a lower spec.replicas waits for full servers.
	fullPatience = time.Minute
	// marksInFlight is how many pods are annotated at the same time.
	marksInFlight = 8
)

// mark is what annotations of a pod are to be changed to; nil removes one.
type mark struct {
	pod         string
	annotations map[string]*string
}

// marks are the annotations to write before the Deployment is applied.
func marks(d decision, m *memory) []mark {
	var all []mark
	costs := needsCosts(d)
	for i := range d.pods {
		pod := &d.pods[i]
		if pod.DeletionTimestamp != nil {
			continue
		}
		changes := map[string]*string{}
		if costs {
			maps.Copy(changes, costChange(d.snapshot, pod))
		}
		maps.Copy(changes, evictionChange(d.snapshot, pod, m.servers[pod.UID]))
		if len(changes) > 0 {
			all = append(all, mark{pod.Name, changes})
		}
	}
	return all
}

// needsCosts reports whether servers are about to be removed and it matters which.
func needsCosts(d decision) bool {
	l := loadOf(d.snapshot)
	return 0 < d.scaling.to && d.scaling.to < d.scaling.from && l.idle < l.stay
}

func costChange(s snapshot, pod *corev1.Pod) map[string]*string {
	cost, costs := "", int64(0)
	if report, answered := s.reports[pod.Name]; answered {
		costs = min(max(0, report.Sessions.Active), mostSessions)
	} else if pods.IsServing(pod) {
		costs = mostSessions
	}
	if costs > 0 {
		cost = strconv.FormatInt(costs, 10)
	}
	switch {
	case pod.Annotations[deletionCost] == cost:
		return nil
	case cost == "":
		return map[string]*string{deletionCost: nil}
	default:
		return map[string]*string{deletionCost: &cost}
	}
}

// evictionChange follows the server where the template leaves that to us, and says nothing of one
// that doesn't answer.
func evictionChange(s snapshot, pod *corev1.Pod, known serverMemory) map[string]*string {
	_, userSays := userAnnotations(s.env)[safeToEvict]
	_, answered := s.reports[pod.Name]
	now, set := pod.Annotations[safeToEvict]
	if userSays || !answered || !set {
		return nil
	}
	isIdle := !known.idleSince.IsZero()
	switch {
	case now != "false" && !isIdle:
		return map[string]*string{safeToEvict: new("false")}
	case now != "true" && isIdle && s.now.Sub(known.idleSince) >= idleBeforeEviction:
		return map[string]*string{safeToEvict: new("true")}
	}
	return nil
}

func userAnnotations(env *v1alpha1.CustomerSupportEnv) map[string]string {
	if env.Spec.Template == nil {
		return nil
	}
	return env.Spec.Template.Annotations
}

// holdBack keeps the number of servers while a full server would be removed in place of an idle
// one.
func (m *memory) holdBack(d decision) bool {
	l := loadOf(d.snapshot)
	wouldHit := d.scaling.reason == scaleSpec && 0 < d.scaling.to && d.scaling.to < d.scaling.from-l.unready &&
		l.exposed > 0 && l.idle > l.unready
	switch {
	case !wouldHit:
		m.held = time.Time{}
	case m.held.IsZero():
		m.held = d.now
	}
	return wouldHit && d.now.Sub(m.held) < fullPatience
}

// hold keeps the number of servers for this time. The pool isn't where it is to be, and says so.
func (d *decision) hold() {
	d.scaling.to, d.scaling.reason, d.scaling.why = d.scaling.from, "", ""
	d.held, d.applying = true, true
}

// annotate writes the marks. A pod that went meanwhile needs none.
func (r *Reconciler) annotate(ctx context.Context, namespace string, marks []mark) error {
	var group errgroup.Group
	group.SetLimit(marksInFlight)
	failed := make([]error, len(marks))
	for i, mark := range marks {
		group.Go(func() error {
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": mark.annotations}})
			if err != nil {
				return fmt.Errorf("encoding annotations: %w", err)
			}
			pod := &corev1.Pod{}
			pod.Namespace, pod.Name = namespace, mark.pod
			if err := r.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch),
				fieldOwner); client.IgnoreNotFound(err) != nil {
				failed[i] = fmt.Errorf("annotating Pod %s: %w", mark.pod, err)
			}
			return nil
		})
	}
	return errors.Join(group.Wait(), errors.Join(failed...))
}

// observe compares the servers with what is remembered of them, and counts what has happened to them.
func (m *memory) observe(s snapshot, metrics *poolMetrics) {
	namespace, name := s.env.Namespace, s.env.Name
	servers := make(map[types.UID]serverMemory, len(s.pods))
	for _, pod := range s.pods {
		known, isKnown := m.servers[pod.UID]
		if ready := pods.Condition(&pod, corev1.PodReady); pods.IsReady(&pod) && !known.wasReady {
			known.wasReady = true
			if m.looked {
				metrics.timeToReady.WithLabelValues(namespace, name).Observe(
					max(0, ready.LastTransitionTime.Sub(pod.CreationTimestamp.Time).Seconds()))
			}
		}
		if report, answered := s.reports[pod.Name]; answered {
			// A server that starts again counts from 0. What was before the first look isn't news.
			if before := known.unjudged; isKnown && report.JudgeFailures > before {
				metrics.unjudged.WithLabelValues(namespace, name).Add(float64(report.JudgeFailures - before))
			}
			known.active, known.unjudged = min(max(0, report.Sessions.Active), mostSessions), report.JudgeFailures
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
	// A pod may be gone from the cache before its end is told, so it is remembered once more.
	for uid, known := range m.servers {
		if _, there := servers[uid]; !there && !known.missed {
			known.missed = true
			servers[uid] = known
		}
	}
	m.servers, m.looked = servers, true
}

// podEvents wakes a pod's pool, and keeps what a pod that is gone said at its end: nobody can read
// that later.
func (r *Reconciler) podEvents() handler.EventHandler {
	wake := handler.EnqueueRequestsFromMapFunc(poolOfPod)
	return handler.Funcs{
		CreateFunc: wake.Create, UpdateFunc: wake.Update, GenericFunc: wake.Generic,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			pod, isPod := e.Object.(*corev1.Pod)
			for _, pool := range poolOfPod(ctx, e.Object) {
				if isPod {
					r.memories.recordDeleted(pool.NamespacedName, pod)
				}
			}
			wake.Delete(ctx, e, queue)
		},
	}
}

// drainReportOf is what the pod's server said of its drain, false where it said nothing. Its image is
// the user's choice, so it is believed within bounds.
func drainReportOf(pod *corev1.Pod) (score.DrainReport, bool) {
	var f score.DrainReport
	status := pods.Container(pod, pods.ServerContainer)
	if status == nil || status.State.Terminated == nil || json.Unmarshal([]byte(status.State.Terminated.Message),
		&f) != nil {
		return score.DrainReport{}, false
	}
	bound := func(n, most int64) int64 { return min(max(0, n), most) }
	return score.DrainReport{Sessions: bound(f.Sessions, mostSessions), Cut: bound(f.Cut, mostSessions),
		Seconds: bound(f.Seconds, int64((7 * 24 * time.Hour).Seconds()))}, true
}

// reportTerminated counts the servers that went, and tells of those that had sessions.
func (r *Reconciler) reportTerminated(env *v1alpha1.CustomerSupportEnv, m *memory) {
	namespace, name := env.Namespace, env.Name
	tell := func(kind, reason, format string, args ...any) {
		r.recorder.Eventf(env, nil, kind, reason, "Reconcile", format, args...)
	}
	for _, pod := range r.memories.takeEnded(client.ObjectKeyFromObject(env)) {
		farewell, said := drainReportOf(pod)
		if !said {
			if lost := m.servers[pod.UID].active; lost > 0 {
				r.metrics.cut.WithLabelValues(namespace, name).Add(float64(lost))
				tell(corev1.EventTypeWarning, v1alpha1.ReasonSessionsCut, "Server %s went without a word. It had %d "+
					"sessions when it last answered. See what became of its node and its memory.", pod.Name, lost)
			}
			continue
		}
		r.metrics.drains.WithLabelValues(namespace, name).Observe(float64(farewell.Seconds))
		r.metrics.cut.WithLabelValues(namespace, name).Add(float64(farewell.Cut))
		took := time.Duration(farewell.Seconds) * time.Second
		switch {
		case farewell.Cut > 0:
			tell(corev1.EventTypeWarning, v1alpha1.ReasonSessionsCut, "Server %s cut %d of its %d sessions after %s. "+
				"Raise spec.drainTimeoutSeconds above spec.sessions.maxDurationSeconds to have none cut.",
				pod.Name, farewell.Cut, max(farewell.Sessions, farewell.Cut), took)
		case farewell.Sessions > 0:
			tell(corev1.EventTypeNormal, v1alpha1.ReasonDrained,
				"Server %s has ended its %d sessions in %s and is gone.", pod.Name, farewell.Sessions, took)
		}
	}
}
