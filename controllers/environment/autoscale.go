package environment

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
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
	// maxSessions bounds the sessions that a server reports. It is the maximum of
	// spec.sessions.perPod.
	maxSessions = 100_000
	// defaultFree is the default of spec.autoscaling.freeSessions.
	defaultFree = "20%"
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

// load summarises the sessions of a pool's servers.
type load struct {
	size    int64 // sessions that one server takes
	active  int64 // open sessions of the servers that stay and answered
	stay    int32 // servers that stay
	silent  int32 // servers that stay and run, but didn't answer
	idle    int32 // servers that stay without sessions, including starting ones
	unready int32 // idle servers that aren't ready
	// exposed are servers that stay, aren't ready and may have sessions: full ones, say. A
	// ReplicaSet removes servers that aren't ready before any other.
	exposed int32
	leaving int32 // terminating servers that still run
	lasting int64 // open sessions of terminating and draining servers
	unsure  bool  // a terminating server didn't answer
	awaited bool  // an EvaluationRun needs the pool
}

// needs returns the number of servers for the load without limits: low if the servers that didn't
// answer are empty, high if they are full.
func (l load) needs(a *v1alpha1.Autoscaling) (low, high int64) {
	sessions, isPlayed := l.active, l.active+l.lasting > 0 || l.awaited
	isSilent := l.silent > 0 || l.unsure
	return l.serversFor(a, sessions, isPlayed), l.serversFor(a, sessions+int64(l.silent)*l.size, isPlayed || isSilent)
}

// serversFor returns the minimum number of servers for the sessions and the free ones. A pool with
// minReplicas 0 gets none while it isn't used.
func (l load) serversFor(a *v1alpha1.Autoscaling, sessions int64, isPlayed bool) int64 {
	if ptr.Deref(a.MinReplicas, 1) == 0 && !isPlayed {
		return 0
	}
	number, percent := freeSessions(a)
	return max(1, ceilDiv(100*(sessions+number), l.size*(100-percent)))
}

// freeSessions returns the sessions to keep free: a number, or a percentage of the capacity.
func freeSessions(a *v1alpha1.Autoscaling) (number, percent int64) {
	free := ptr.Deref(a.FreeSessions, intstr.FromString(defaultFree))
	if free.Type == intstr.Int {
		return int64(max(0, free.IntVal)), 0
	}
	percent, err := strconv.ParseInt(strings.TrimSuffix(free.StrVal, "%"), 10, 64)
	if err != nil {
		// The schema admits only percentages.
		return 0, 0
	}
	return 0, min(max(0, percent), 99)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

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
	h.high = h.high.with(sample{now, min(high, most)}, scaleDownDelay(a))
	h.low = h.low.with(sample{now, min(low, most)}, limitSpan)
	return h
}

// isLongEnough reports whether the passes span the delay.
func (h history) isLongEnough(a *v1alpha1.Autoscaling) bool {
	return h.last.Sub(h.since) >= scaleDownDelay(a)
}

func scaleDownDelay(a *v1alpha1.Autoscaling) time.Duration {
	return time.Duration(ptr.Deref(a.ScaleDownDelaySeconds, 300)) * time.Second
}

// scaling is a decision about the number of servers.
type scaling struct {
	from, to int32
	reason   string // of the change, empty without one
	why      string // for the event
	limit    string // the reason of ScalingLimited, empty without autoscaling
	needed   int64  // servers that autoscaling needs, without limits
}

func (s scaling) direction() string {
	if s.to < s.from {
		return "down"
	}
	return "up"
}

// autoscale decides the number of servers, given the current number, and returns the new history.
func autoscale(a *v1alpha1.Autoscaling, l load, from int32, past history, now time.Time) (scaling, history) {
	low, high := l.needs(a)
	past = past.after(now, low, high, a)
	least, most := ptr.Deref(a.MinReplicas, 1), a.MaxReplicas
	s := scaling{from: from, to: from, limit: v1alpha1.ReasonWithinLimits, needed: low}
	switch wish := clamp(low, least, most); {
	case from < wish:
		s.to = wish
		s.reason, s.why = l.whyUp(a, wish, least)
	case from > most:
		s.to, s.reason, s.why = most, scaleMaximum, fmt.Sprintf("maxReplicas is %d", most)
	default:
		s = l.shrink(s, a, clamp(past.high.greatest(), least, most), past.isLongEnough(a))
	}
	switch {
	case past.low.greatest() > int64(most):
		s.limit = v1alpha1.ReasonAtMaximum
	case s.to == least && past.high.greatest() < int64(least):
		s.limit = v1alpha1.ReasonAtMinimum
	}
	return s, past
}

func clamp(n int64, least, most int32) int32 {
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

// shrink removes idle servers. If all have sessions, it removes one at a time, which drains.
func (l load) shrink(s scaling, a *v1alpha1.Autoscaling, target int32, longEnough bool) scaling {
	if s.from <= target || !longEnough {
		return s
	}
	s.to = max(target, s.from-l.removable(s.from))
	if s.to == s.from {
		return s
	}
	s.reason, s.why = scaleUnneeded, fmt.Sprintf("at most %d were needed for %s", target, scaleDownDelay(a))
	if s.to == 0 {
		s.reason, s.why = scaleIdle, fmt.Sprintf("the pool was unused for %s", scaleDownDelay(a))
	}
	return s
}

// removable returns how many servers may be removed now. The difference between the Deployment's
// number and the servers that stay is already being created or removed.
func (l load) removable(from int32) int32 {
	pending := from - l.stay
	if l.exposed > 0 {
		return max(0, l.unready+pending)
	}
	if pending == 0 && l.idle == 0 && l.leaving == 0 {
		return 1
	}
	return max(0, l.idle+pending)
}

// loadOf summarises the servers of a snapshot.
func loadOf(s snapshot) load {
	l := load{size: serverSize(s), awaited: s.awaited}
	for _, pod := range s.pods {
		if pods.HasEnded(&pod) {
			continue
		}
		report, answered := s.reports[pod.Name]
		active := min(max(0, report.Sessions.Active), maxSessions)
		isSilent := pods.IsServing(&pod) && !answered
		if pod.DeletionTimestamp != nil {
			if pods.IsServing(&pod) {
				l.leaving++
			}
			l.lasting, l.unsure = l.lasting+active, l.unsure || isSilent
			continue
		}
		l.stay++
		switch {
		case isSilent:
			l.silent++
		case active == 0:
			l.idle++
		case report.Draining:
			l.lasting += active
		default:
			l.active += active
		}
		mayPlay := isSilent || active > 0
		switch {
		case pods.IsReady(&pod):
		case mayPlay:
			l.exposed++
		default:
			l.unready++
		}
	}
	return l
}

// serverSize returns the sessions of one server: those of the spec, or fewer if the servers of the
// newest template report so.
func serverSize(s snapshot) int64 {
	size, isNewest := int64(max(1, s.env.Spec.Sessions.PerPod)), describes(s, annotatedScenarios(s))
	sum, n := int64(0), int64(0)
	for _, pod := range s.pods {
		if report, ok := s.reports[pod.Name]; ok && !report.Draining && isNewest(pod) {
			sum, n = sum+min(max(1, report.Sessions.Capacity), size), n+1
		}
	}
	if n == 0 {
		return size
	}
	return sum / n
}

// decideReplicas returns the number of servers. Only the Deployment stores the number that
// autoscaling chooses, because the spec belongs to the user.
func decideReplicas(s snapshot, past history) (scaling, history) {
	from, a := int32(-1), s.env.Spec.Autoscaling
	if d := s.deployment(); d != nil {
		from = ptr.Deref(d.Spec.Replicas, 1)
	}
	switch {
	case s.env.Spec.OperatingMode == v1alpha1.SuspendedMode:
		return fixed(from, 0, scaleSuspended, "operatingMode is Suspended"), history{}
	case a == nil:
		n := ptr.Deref(s.env.Spec.Replicas, 1)
		return fixed(from, n, scaleSpec, fmt.Sprintf("spec.replicas is %d", n)), history{}
	case from < 0:
		// Start at least one server, because the status lists the tasks that a server reports.
		n := max(1, ptr.Deref(a.MinReplicas, 1))
		decided := fixed(from, n, scaleMinimum, "")
		decided.limit, decided.needed = v1alpha1.ReasonWithinLimits, int64(n)
		return decided, past
	default:
		return autoscale(a, loadOf(s), from, past, s.now)
	}
}

// fixed is a decision that doesn't depend on the load. A pool without a Deployment has no number to
// change.
func fixed(from, to int32, reason, why string) scaling {
	if from < 0 || from == to {
		return scaling{from: to, to: to}
	}
	return scaling{from: from, to: to, reason: reason, why: why}
}
