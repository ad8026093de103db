package rules

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/snapshot"
)

// Autoscaling computes the number of servers from the open sessions, independent of the current
// number. So a burst doesn't overshoot while servers start, and a decision over a stale cache is
// the same.
//
// Servers that don't answer give two numbers: those needed if these servers are empty, and if they
// are full. The pool grows only if the first number is above the current one, and shrinks only if
// the second is below it.
//
// The pool grows at once. It shrinks after the servers were unneeded in every pass of
// scaleDownDelaySeconds. The passes are kept in memory, so after a restart the delay starts again.

const (
	// maxGap is the longest time between two passes that counts as uninterrupted.
	maxGap = time.Minute
	// limitSpan is the time that autoscaling stays AtMaximum after it last needed more, to avoid
	// frequent changes of the condition.
	limitSpan = time.Minute
)

// Why the number of servers changes: the values of the reason label of
// csenv_pool_scale_decisions_total.
const (
	scaleFree      = "FreeSessions"
	scaleAwaited   = "RunWaiting"
	scaleMinimum   = "MinReplicas"
	scaleMaximum   = "MaxReplicas"
	scaleIdle      = "Idle"
	scaleUnneeded  = "Superfluous"
	scaleSpec      = "SpecReplicas"
	scaleSuspended = "Suspended"
)

// sample is the number of servers needed at a time.
type sample struct {
	at time.Time
	n  int64
}

// window keeps the samples that determine the maximum of a time span: those above all later ones.
type window []sample

// with returns the window with another sample.
func (w window) with(s sample, span time.Duration) window {
	next := make(window, 0, len(w)+1)
	for _, old := range w {
		if s.at.Sub(old.at) <= span && old.n > s.n {
			next = append(next, old)
		}
	}
	return append(next, s)
}

// greatest returns the maximum of the span, 0 without samples.
func (w window) greatest() int64 {
	if len(w) == 0 {
		return 0
	}
	return w[0].n
}

// history is the autoscaling state of a pool.
type history struct {
	since, last time.Time // of the passes, without a gap
	high        window    // over scaleDownDelaySeconds
	low         window    // over limitSpan
}

// after returns the history with another pass.
func (h history) after(now time.Time, low, high int64, a *v1alpha1.Autoscaling) history {
	if gap := now.Sub(h.last); h.since.IsZero() || gap > maxGap || gap < 0 {
		h = history{since: now}
	}
	// Numbers above the maximum needn't be distinguished.
	most := int64(a.MaxReplicas) + 1
	h.last = now
	h.high = h.high.with(sample{now, min(high, most)}, getScaleDownDelay(a))
	h.low = h.low.with(sample{now, min(low, most)}, limitSpan)
	return h
}

// isLongEnough reports whether the passes span the delay.
func (h history) isLongEnough(a *v1alpha1.Autoscaling) bool {
	return h.last.Sub(h.since) >= getScaleDownDelay(a)
}

func getScaleDownDelay(a *v1alpha1.Autoscaling) time.Duration {
	return time.Duration(ptr.Deref(a.ScaleDownDelaySeconds, 300)) * time.Second
}

// Scaling is a decision about the number of servers.
type Scaling struct {
	From, To int32
	Reason   string // of the change, empty without one
	Why      string // for the event
	Limit    string // the reason of ScalingLimited, empty without autoscaling
	needed   int64  // servers that autoscaling needs, without limits
}

// Direction returns "up" or "down".
func (s Scaling) Direction() string {
	if s.To < s.From {
		return "down"
	}
	return "up"
}

// chooseServers decides the number of servers, given the current number, and returns the new
// history.
func chooseServers(a *v1alpha1.Autoscaling, l load, from int32, past history, now time.Time) (Scaling, history) {
	low, high := l.countNeeded(a)
	past = past.after(now, low, high, a)
	least, most := ptr.Deref(a.MinReplicas, 1), a.MaxReplicas
	s := Scaling{From: from, To: from, Limit: v1alpha1.ReasonWithinLimits, needed: low}
	switch wish := limitNumber(low, least, most); {
	case from < wish:
		s.To = wish
		s.Reason, s.Why = l.whyUp(a, wish, least)
	case from > most:
		s.To, s.Reason, s.Why = most, scaleMaximum, fmt.Sprintf("maxReplicas is %d", most)
	default:
		s = l.removeIdle(s, a, limitNumber(past.high.greatest(), least, most), past.isLongEnough(a))
	}
	switch {
	case past.low.greatest() > int64(most):
		s.Limit = v1alpha1.ReasonAtMaximum
	case s.To == least && past.high.greatest() < int64(least):
		s.Limit = v1alpha1.ReasonAtMinimum
	}
	return s, past
}

// countNeeded returns the number of servers for the load without limits: low if the servers that
// didn't answer are empty, high if they are full.
func (l load) countNeeded(a *v1alpha1.Autoscaling) (low, high int64) {
	sessions, isPlayed := l.active, l.active+l.lasting > 0 || l.awaited
	isSilent := l.silent > 0 || l.unsure
	return l.serversFor(a, sessions, isPlayed), l.serversFor(a, sessions+int64(l.silent)*l.size, isPlayed || isSilent)
}

func limitNumber(n int64, least, most int32) int32 {
	return int32(min(max(n, int64(least)), int64(most))) //nolint:gosec // between two of them
}

func (l load) whyUp(a *v1alpha1.Autoscaling, wish, least int32) (reason, why string) {
	free := ptr.Deref(a.FreeSessions, intstr.FromString(defaultFree))
	switch {
	case l.active == 0 && l.awaited && wish == 1:
		return scaleAwaited, "an EvaluationRun waits for the pool"
	case wish == least:
		return scaleMinimum, fmt.Sprintf("minReplicas is %d", least)
	default:
		return scaleFree, fmt.Sprintf("%d sessions are open, and %s must be free", l.active, free.String())
	}
}

// removeIdle removes idle servers. If all have sessions, it removes one at a time, which drains.
func (l load) removeIdle(s Scaling, a *v1alpha1.Autoscaling, target int32, longEnough bool) Scaling {
	if s.From <= target || !longEnough {
		return s
	}
	s.To = max(target, s.From-l.countRemovable(s.From))
	if s.To == s.From {
		return s
	}
	s.Reason, s.Why = scaleUnneeded, fmt.Sprintf("at most %d were needed for %s", target, getScaleDownDelay(a))
	if s.To == 0 {
		s.Reason, s.Why = scaleIdle, fmt.Sprintf("the pool was unused for %s", getScaleDownDelay(a))
	}
	return s
}

// countRemovable returns how many servers may be removed now. The difference between the
// Deployment's number and the servers that stay is already being created or removed.
func (l load) countRemovable(from int32) int32 {
	pending := from - l.stay
	if l.exposed > 0 {
		return max(0, l.unready+pending)
	}
	if pending == 0 && l.idle == 0 && l.leaving == 0 {
		return 1
	}
	return max(0, l.idle+pending)
}

// decideReplicas returns the number of servers. Only the Deployment stores the number that
// autoscaling chooses, because the spec belongs to the user.
func decideReplicas(s snapshot.Snapshot, past history) (Scaling, history) {
	from, a := int32(-1), s.Env.Spec.Autoscaling
	if d := s.Deployment(); d != nil {
		from = ptr.Deref(d.Spec.Replicas, 1)
	}
	switch {
	case s.Env.Spec.OperatingMode == v1alpha1.SuspendedMode:
		return fixNumber(from, 0, scaleSuspended, "operatingMode is Suspended"), history{}
	case a == nil:
		n := ptr.Deref(s.Env.Spec.Replicas, 1)
		return fixNumber(from, n, scaleSpec, fmt.Sprintf("spec.replicas is %d", n)), history{}
	case from < 0:
		// Start at least one server, because the status lists the tasks that a server reports.
		n := max(1, ptr.Deref(a.MinReplicas, 1))
		decided := fixNumber(from, n, scaleMinimum, "")
		decided.Limit, decided.needed = v1alpha1.ReasonWithinLimits, int64(n)
		return decided, past
	default:
		return chooseServers(a, summariseLoad(s), from, past, s.Now)
	}
}

// fixNumber returns a decision that doesn't depend on the load. A pool without a Deployment has no
// number to change.
func fixNumber(from, to int32, reason, why string) Scaling {
	if from < 0 || from == to {
		return Scaling{From: to, To: to}
	}
	return Scaling{From: from, To: to, Reason: reason, Why: why}
}
