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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
)

// A ReplicaSet removes unready pods first, then those of the lowest deletion cost. So before the
// Deployment's replicas are lowered, each busy pod gets its number of sessions as its cost. If a
// cost can't be written, the replicas stay.
//
// A full server isn't ready, so it would be removed before an idle one. Autoscaling avoids that
// (see removable). If a user lowers spec.replicas, the change waits until the server has a free
// slot, at most fullPatience.

const (
	deletionCost = "controller.kubernetes.io/pod-deletion-cost" // 0 if unset
	// safeToEvict is "false" in the template, because the cluster autoscaler ends pods after ten
	// minutes in spite of their grace period. Pods that are idle for idleBeforeEviction get "true".
	safeToEvict        = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	idleBeforeEviction = 10 * time.Minute
	fullPatience       = time.Minute
	marksInFlight      = 8 // pods that are annotated at the same time
)

// mark is a change of a pod's annotations. A nil value removes one.
type mark struct {
	pod         string
	annotations map[string]*string
}

// marks returns the changes to write before the Deployment is applied.
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

// needsCosts reports whether busy servers could be removed instead of idle ones.
func needsCosts(d decision) bool {
	l := loadOf(d.snapshot)
	return 0 < d.scaling.to && d.scaling.to < d.scaling.from && l.idle < l.stay
}

func costChange(s snapshot, pod *corev1.Pod) map[string]*string {
	sessions := int64(0)
	if report, answered := s.reports[pod.Name]; answered {
		sessions = activeSessions(report)
	} else if pods.IsServing(pod) {
		sessions = maxSessions
	}
	var cost *string
	if sessions > 0 {
		cost = new(strconv.FormatInt(sessions, 10))
	}
	if pod.Annotations[deletionCost] == ptr.Deref(cost, "") {
		return nil
	}
	return map[string]*string{deletionCost: cost}
}

// evictionChange returns nothing for a server that doesn't answer, or if the user sets the
// annotation.
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

// holdBack reports whether the number of servers stays, because a full server would be removed
// instead of an idle one.
func (m *memory) holdBack(d decision) bool {
	l := loadOf(d.snapshot)
	wouldHit := d.scaling.reason == scaleSpec && 0 < d.scaling.to && d.scaling.to < d.scaling.from-l.unready &&
		l.exposed > 0 && l.idle > l.unready
	switch {
	case !wouldHit:
		m.heldSince = time.Time{}
	case m.heldSince.IsZero():
		m.heldSince = d.now
	}
	return wouldHit && d.now.Sub(m.heldSince) < fullPatience
}

// hold keeps the number of servers in this pass. The pool then counts as progressing.
func (d *decision) hold() {
	d.scaling.to, d.scaling.reason, d.scaling.why = d.scaling.from, "", ""
	d.held, d.applying = true, true
}

// annotate writes the marks. Pods that no longer exist are ignored.
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
