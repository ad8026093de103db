package environment

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// bounds is autoscaling between two numbers of servers, with the defaults of the API server.
func bounds(least, most int32, edits ...func(*v1alpha1.Autoscaling)) *v1alpha1.Autoscaling {
	a := &v1alpha1.Autoscaling{
		MinReplicas: new(least), MaxReplicas: most, FreeSessions: new(intstr.FromString("20%")),
		ScaleDownDelaySeconds: new(int32(300)),
	}
	for _, edit := range edits {
		edit(a)
	}
	return a
}

func free(sessions int32) func(*v1alpha1.Autoscaling) {
	return func(a *v1alpha1.Autoscaling) { a.FreeSessions = new(intstr.FromInt32(sessions)) }
}

func delay(seconds int32) func(*v1alpha1.Autoscaling) {
	return func(a *v1alpha1.Autoscaling) { a.ScaleDownDelaySeconds = new(seconds) }
}

// watched is a history of steady needs over an hour.
func watched(a *v1alpha1.Autoscaling, n int64) history {
	var h history
	for t := noon.Add(-time.Hour); t.Before(noon); t = t.Add(scalePollInterval) {
		h = h.after(t, n, n, a)
	}
	return h
}

func TestAutoscale(t *testing.T) {
	t.Parallel()
	small := bounds(1, 10)
	number := bounds(1, 10, free(15))
	zero := bounds(0, 10)
	at := func(to int32, reason string) scaling {
		return scaling{to: to, reason: reason, limit: v1alpha1.ReasonWithinLimits}
	}
	limited := func(to int32, reason, limit string) scaling { return scaling{to: to, reason: reason, limit: limit} }
	tests := map[string]struct {
		a    *v1alpha1.Autoscaling
		load load
		from int32
		past history
		want scaling
	}{
		"at rest":                              {small, load{stay: 1, idle: 1}, 1, history{}, at(1, "")},
		"a share is free to the last session":  {small, load{active: 16, stay: 2}, 2, history{}, at(2, "")},
		"a share is free no more":              {small, load{active: 17, stay: 2}, 2, history{}, at(3, scaleFree)},
		"a number is free to the last session": {number, load{active: 5, stay: 2}, 2, history{}, at(2, "")},
		"a number is free no more":             {number, load{active: 6, stay: 2}, 2, history{}, at(3, scaleFree)},
		"a burst goes up at once":              {small, load{active: 64, stay: 1}, 1, history{}, at(8, scaleFree)},
		"servers that start are room to come": {small, load{active: 64, stay: 8, idle: 7, unready: 7}, 8, history{},
			at(8, "")},
		"not beyond the maximum": {small, load{active: 99, stay: 1}, 1, history{},
			limited(10, scaleFree, v1alpha1.ReasonAtMaximum)},
		"at the maximum": {small, load{active: 99, stay: 10}, 10, history{},
			limited(10, "", v1alpha1.ReasonAtMaximum)},
		"the maximum was lowered": {small, load{active: 99, stay: 12}, 12, history{},
			limited(10, scaleMaximum, v1alpha1.ReasonAtMaximum)},
		"the minimum was raised": {bounds(4, 10), load{active: 1, stay: 1}, 1, history{},
			limited(4, scaleMinimum, v1alpha1.ReasonAtMinimum)},
		"at the minimum": {bounds(4, 10), load{stay: 4, idle: 4}, 4, watched(bounds(4, 10), 1),
			limited(4, "", v1alpha1.ReasonAtMinimum)},
		"superfluous, just seen": {small, load{stay: 4, idle: 4}, 4, history{}, at(4, "")},
		"superfluous for the delay": {small, load{stay: 4, idle: 4}, 4, watched(small, 1),
			at(1, scaleUnneeded)},
		"superfluous but for a moment": {small, load{stay: 4, idle: 4}, 4,
			watched(small, 1).after(noon.Add(-time.Second), 3, 3, small), at(3, scaleUnneeded)},
		"no delay": {bounds(1, 10, delay(0)), load{stay: 4, idle: 4}, 4, history{},
			at(1, scaleUnneeded)},
		"only idle servers go": {small, load{active: 4, stay: 6, idle: 2}, 6, watched(small, 1),
			at(4, scaleUnneeded)},
		"all are played: one goes": {small, load{active: 4, stay: 4}, 4, watched(small, 1),
			at(3, scaleUnneeded)},
		"all are played, and one is on its way": {small, load{active: 4, stay: 4, leaving: 1, lasting: 1}, 4,
			watched(small, 1), at(4, "")},
		"the idle ones are about to be removed": {small, load{active: 4, stay: 6, idle: 2}, 4, watched(small, 1),
			at(4, "")},
		"more are about to be created": {small, load{active: 4, stay: 4}, 6, watched(small, 1),
			at(4, scaleUnneeded)},
		"a full one would go first": {small, load{active: 10, stay: 6, idle: 5, exposed: 1}, 6,
			watched(small, 2), at(6, "")},
		"a full one would go after starting": {small, load{active: 10, stay: 6, idle: 5, unready: 2, exposed: 1}, 6,
			watched(small, 2), at(4, scaleUnneeded)},
		"silence is no reason to add": {small, load{active: 8, stay: 4, silent: 3}, 4, history{}, at(4, "")},
		"silence is no reason to remove": {small, load{stay: 4, silent: 3, idle: 1}, 4, watched(small, 4),
			at(4, "")},
		"silence begins, and is taken for full": {small, load{stay: 4, silent: 3, idle: 1}, 4, watched(small, 1),
			at(4, "")},
		"silence hides no burst": {small, load{active: 40, stay: 4, silent: 1}, 4, history{},
			at(5, scaleFree)},
		"more than needed though silent is full": {small, load{stay: 4, silent: 1, idle: 3}, 4, watched(small, 2),
			at(2, scaleUnneeded)},
		"nobody plays":                   {zero, load{stay: 1, idle: 1}, 1, watched(zero, 0), at(0, scaleIdle)},
		"nobody has played for a moment": {zero, load{stay: 1, idle: 1}, 1, watched(zero, 1), at(1, "")},
		"nobody plays and nothing runs":  {zero, load{}, 0, watched(zero, 0), at(0, "")},
		"a run waits":                    {zero, load{awaited: true}, 0, watched(zero, 0), at(1, scaleAwaited)},
		"a run waits for several": {bounds(0, 10, free(25)), load{awaited: true}, 0, watched(zero, 0),
			at(3, scaleFree)},
		"a run keeps the last server": {zero, load{stay: 1, idle: 1, awaited: true}, 1, watched(zero, 1),
			at(1, "")},
		"a session keeps the last server": {zero, load{stay: 1, active: 1}, 1, watched(zero, 1), at(1, "")},
		"a lasting session brings one back": {zero, load{leaving: 1, lasting: 1}, 0, watched(zero, 0),
			at(1, scaleFree)},
		"a silent leaving one brings none back": {zero, load{leaving: 1, unsure: true}, 0, watched(zero, 0),
			at(0, "")},
		"a silent leaving one keeps the last": {zero, load{stay: 1, idle: 1, leaving: 1, unsure: true}, 1,
			watched(zero, 0), at(1, "")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.load.size = 10
			got, _ := autoscale(tt.a, tt.load, tt.from, tt.past, noon)
			if got.from != tt.from || (got.why == "") != (got.from == got.to) {
				t.Errorf("decided %+v", got)
			}
			tt.want.from, tt.want.why, tt.want.needed = got.from, got.why, got.needed
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(scaling{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A restart, or a long time without a look, begins the delay anew.
func TestAutoscaleLooksOnlyBackOverWhatItSaw(t *testing.T) {
	t.Parallel()
	a := bounds(1, 10)
	idle := load{size: 10, stay: 4, idle: 4}
	for name, tt := range map[string]struct {
		past history
		want int32
	}{
		"all along": {watched(a, 1), 1},
		"restarted": {history{}, 4},
		"away for long": {func() history { h := watched(a, 1); h.last = noon.Add(-maxGap - time.Second); return h }(),
			4},
		"a clock behind": {func() history { h := watched(a, 1); h.last = noon.Add(time.Hour); return h }(), 4},
	} {
		if got, _ := autoscale(a, idle, 4, tt.past, noon); got.to != tt.want {
			t.Errorf("%s: %d servers, want %d", name, got.to, tt.want)
		}
	}
}

func drawAutoscaling(r *rapid.T) *v1alpha1.Autoscaling {
	least := rapid.Int32Range(0, 20).Draw(r, "min")
	a := bounds(least, rapid.Int32Range(max(1, least), 30).Draw(r, "max"),
		delay(rapid.SampledFrom([]int32{0, 30, 300}).Draw(r, "delay")))
	if rapid.Bool().Draw(r, "number") {
		free(rapid.Int32Range(0, 200).Draw(r, "free"))(a)
	} else {
		a.FreeSessions = new(intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 99).Draw(r, "share"))))
	}
	return a
}

func drawLoad(r *rapid.T) load {
	stay := rapid.Int32Range(0, 30).Draw(r, "stay")
	silent := rapid.Int32Range(0, stay).Draw(r, "silent")
	idle := rapid.Int32Range(0, stay-silent).Draw(r, "idle")
	l := load{
		size: rapid.Int64Range(1, 50).Draw(r, "size"), stay: stay, silent: silent, idle: idle,
		unready: rapid.Int32Range(0, idle).Draw(r, "unready"),
		exposed: rapid.Int32Range(0, stay-idle).Draw(r, "exposed"), leaving: rapid.Int32Range(0, 3).Draw(r, "leaving"),
		awaited: rapid.Bool().Draw(r, "awaited"),
	}
	if busy := int64(stay - silent - idle); busy > 0 {
		l.active = rapid.Int64Range(busy, busy*l.size).Draw(r, "active")
	}
	if l.leaving > 0 {
		l.lasting, l.unsure = rapid.Int64Range(0, 9).Draw(r, "lasting"), rapid.Bool().Draw(r, "unsure")
	}
	return l
}

func TestAutoscaleProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		a, l := drawAutoscaling(r), drawLoad(r)
		from := rapid.Int32Range(0, 40).Draw(r, "from")
		past := watched(a, rapid.Int64Range(0, 40).Draw(r, "needed before"))
		got, _ := autoscale(a, l, from, past, noon)
		if got.to < *a.MinReplicas || got.to > a.MaxReplicas {
			r.Fatalf("%d servers, allowed are %d to %d", got.to, *a.MinReplicas, a.MaxReplicas)
		}
		if low, high := l.needs(a); low > high {
			r.Fatalf("%d are needed if the silent ones are empty, %d if they are full", low, high)
		}
		more := l
		more.active += rapid.Int64Range(1, 100).Draw(r, "more")
		if busier, _ := autoscale(a, more, from, past, noon); busier.to < got.to {
			r.Fatalf("%d servers for %d sessions, %d for %d", got.to, l.active, busier.to, more.active)
		}
		// What was decided is enough, whatever the buffer, unless the maximum forbids it.
		if number, percent := freeSessions(a); got.to < a.MaxReplicas && got.to > 0 &&
			(*a.MinReplicas > 0 || l.awaited || l.active+l.lasting > 0) {
			capacity := int64(got.to) * l.size
			if vacant := capacity - l.active; vacant < number || vacant*100 < percent*capacity {
				r.Fatalf("%d servers of %d sessions leave %d free beside %d", got.to, l.size, vacant, l.active)
			}
		}
		// Deciding again over what was decided changes nothing but the delay's end: a lagging cache
		// repeats itself.
		l.stay = max(l.stay, got.to)
		if again, _ := autoscale(a, l, got.to, past, noon); again.to > got.to {
			r.Fatalf("from %d to %d, and then to %d", from, got.to, again.to)
		}
	})
}

// TestWindow compares with the plain greatest of all samples.
func TestWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		span := time.Duration(rapid.IntRange(0, 20).Draw(r, "span")) * time.Second
		var w window
		var all []sample
		now := noon
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 60).Draw(r, "needs") {
			now = now.Add(time.Duration(rapid.IntRange(0, 7).Draw(r, "pause")) * time.Second)
			all, w = append(all, sample{now, n}), w.with(sample{now, n}, span)
			want := int64(0)
			for _, s := range all {
				if now.Sub(s.at) <= span {
					want = max(want, s.n)
				}
			}
			if w.greatest() != want || len(w) > 10 {
				r.Fatalf("greatest of %v is %d, want %d", w, w.greatest(), want)
			}
		}
	})
}

// TestAutoscaleDoesNotFlap plays a load that swings about a level: the pool goes up to its peaks
// and stays there, whatever the delay, as long as the load comes back within it.
func TestAutoscaleDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		a := drawAutoscaling(r)
		level, swing := rapid.Int64Range(0, 200).Draw(r, "level"), rapid.Int64Range(0, 100).Draw(r, "swing")
		from, past, now := max(1, *a.MinReplicas), history{}, noon
		var lastUp time.Time
		for range 200 {
			now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(r, "pause")) * time.Second)
			l := load{size: 10, stay: from, active: level + rapid.Int64Range(0, swing).Draw(r, "noise"),
				idle: rapid.Int32Range(0, from).Draw(r, "idle")}
			var got scaling
			got, past = autoscale(a, l, from, past, now)
			if got.to < from && now.Sub(lastUp) < scaleDownDelay(a) {
				r.Fatalf("down from %d to %d, %s after going up", from, got.to, now.Sub(lastUp))
			}
			if got.to > from {
				lastUp = now
			}
			from = got.to
		}
	})
}

// newest makes the pod one of the newest template.
func newest(s decision, pod corev1.Pod) corev1.Pod {
	pod.Annotations = podTemplate(s.snapshot, s.scenarios).Annotations
	return pod
}

func TestLoadOf(t *testing.T) {
	t.Parallel()
	pods := map[string]struct {
		pod    corev1.Pod
		answer *score.Report
	}{
		"busy":              {server("busy"), new(report(4))},
		"empty":             {server("empty"), new(report(0))},
		"full":              {server("full", unready), new(report(10))},
		"silent":            {server("silent"), nil},
		"silent, not ready": {server("silent, not ready", unready), nil},
		"starting":          {server("starting", waiting("ContainerCreating", "")), nil},
		"going":             {server("going", terminating), new(report(3))},
		"going, silent":     {server("going, silent", terminating), nil},
		"gone":              {server("gone", terminating, waiting("", "")), nil},
		"evicted":           {server("evicted", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }), nil},
		"draining in place": {server("draining in place", unready),
			&score.Report{Draining: true, Sessions: score.Sessions{Active: 2, Capacity: 10}}},
		"lying": {server("lying"), &score.Report{Sessions: score.Sessions{Active: -5, Capacity: -5}}},
		"boasting": {server("boasting"), &score.Report{Sessions: score.Sessions{Active: 1 << 62,
			Capacity: 1 << 62}}},
	}
	of := func(names ...string) load {
		s := healthy()
		s.pods, s.reports, s.env.Spec.Sessions.PerPod, s.awaited = nil, map[string]score.Report{}, 10, true
		for _, name := range names {
			s.pods = append(s.pods, newest(s, pods[name].pod))
			if answer := pods[name].answer; answer != nil {
				s.reports[name] = *answer
			}
		}
		return loadOf(s.snapshot)
	}
	tests := map[string]load{
		"busy":              {size: 10, awaited: true, stay: 1, active: 4},
		"empty":             {size: 10, awaited: true, stay: 1, idle: 1},
		"full":              {size: 10, awaited: true, stay: 1, active: 10, exposed: 1},
		"silent":            {size: 10, awaited: true, stay: 1, silent: 1},
		"silent, not ready": {size: 10, awaited: true, stay: 1, silent: 1, exposed: 1},
		"starting":          {size: 10, awaited: true, stay: 1, idle: 1, unready: 1},
		"going":             {size: 10, awaited: true, leaving: 1, lasting: 3},
		"going, silent":     {size: 10, awaited: true, leaving: 1, unsure: true},
		"gone":              {size: 10, awaited: true},
		"evicted":           {size: 10, awaited: true},
		"draining in place": {size: 10, awaited: true, stay: 1, lasting: 2, exposed: 1},
		"lying":             {size: 1, awaited: true, stay: 1, idle: 1},
		"boasting":          {size: 10, awaited: true, stay: 1, active: mostSessions},
	}
	for name, want := range tests {
		if diff := cmp.Diff(want, of(name), cmp.AllowUnexported(load{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	want := load{size: 10, awaited: true, stay: 5, active: 14, silent: 1, idle: 2, unready: 1, exposed: 1, leaving: 2,
		lasting: 3, unsure: true}
	if diff := cmp.Diff(want, of("busy", "empty", "full", "silent", "starting", "going", "going, silent", "gone"),
		cmp.AllowUnexported(load{})); diff != "" {
		t.Errorf("all together (-want +got):\n%s", diff)
	}
}

// A server of the spec before takes as many sessions as it says, but tells nothing of the next one.
func TestServerSize(t *testing.T) {
	t.Parallel()
	s := healthy()
	playing := func(perPod int32) {
		s.env.Spec.Sessions.PerPod = perPod
		for i := range s.pods {
			s.pods[i] = newest(s, s.pods[i])
		}
	}
	playing(8)
	if got := serverSize(s.snapshot); got != 8 {
		t.Errorf("servers that take more than the spec says count %d", got)
	}
	playing(100)
	if got := serverSize(s.snapshot); got != 10 {
		t.Errorf("servers that take less than the spec says count %d", got)
	}
	for i := range s.pods {
		outdated(&s.pods[i])
	}
	if got := serverSize(s.snapshot); got != 100 {
		t.Errorf("servers to come count %d", got)
	}
}

func TestDecideReplicas(t *testing.T) {
	t.Parallel()
	suspended := func(s *decision) { s.env.Spec.OperatingMode = v1alpha1.SuspendedMode }
	autoscaled := func(a *v1alpha1.Autoscaling) func(*decision) {
		return func(s *decision) { s.env.Spec.Autoscaling, s.env.Spec.Sessions.PerPod = a, 10 }
	}
	tests := map[string]struct {
		edits []func(*decision)
		want  scaling
	}{
		"as the spec says":         {nil, scaling{from: 2, to: 2}},
		"the spec says more":       {[]func(*decision){wants(5)}, scaling{from: 2, to: 5, reason: scaleSpec}},
		"no Deployment yet":        {[]func(*decision){empty}, scaling{from: 2, to: 2}},
		"suspended":                {[]func(*decision){suspended}, scaling{from: 2, to: 0, reason: scaleSuspended}},
		"suspended before it came": {[]func(*decision){suspended, empty}, scaling{from: 0, to: 0}},
		"suspended though scaled": {[]func(*decision){autoscaled(bounds(1, 5)), suspended},
			scaling{from: 2, to: 0, reason: scaleSuspended}},
		"autoscaled": {[]func(*decision){autoscaled(bounds(3, 5))},
			scaling{from: 2, to: 3, reason: scaleMinimum, limit: v1alpha1.ReasonAtMinimum}},
		"autoscaled from nothing": {[]func(*decision){autoscaled(bounds(0, 5)), empty},
			scaling{from: 1, to: 1, limit: v1alpha1.ReasonWithinLimits}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := decideReplicas(healthy(tt.edits...).snapshot, history{})
			tt.want.why, tt.want.needed = got.why, got.needed
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(scaling{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// farm plays the cluster for one autoscaled pool: a ReplicaSet that removes servers as Kubernetes
// does, sessions that come and go, and what goes wrong with it.
type farm struct {
	replicas int32   // what the operator wrote last
	seen     []int32 // what its cache has had, the newest last
	servers  []farmed
	names    int
	awaited  bool
}

type farmed struct {
	name            string
	starts, ends    int // steps until it is up, or -1 once it is; and until a leaving one goes
	sessions        int64
	silent, leaving bool
}

func (f *farm) snapshot(a *v1alpha1.Autoscaling, lag int, now time.Time) decision {
	s := healthy()
	s.env.Spec.Autoscaling, s.env.Spec.Sessions.PerPod, s.now, s.awaited = a, 10, now, f.awaited
	d := rolledOut(s.env)
	d.Spec.Replicas = new(f.seen[max(0, len(f.seen)-1-lag)])
	s.live[childID{kindDeployment, s.env.Name}] = d
	s.pods, s.reports = nil, map[string]score.Report{}
	for _, server := range f.servers {
		pod := serverNamed(server)
		s.pods = append(s.pods, pod)
		if !server.silent && pods.IsServing(&pod) {
			s.reports[pod.Name] = score.Report{Draining: server.leaving,
				Sessions: score.Sessions{Active: server.sessions, Capacity: 10}}
		}
	}
	return s
}

func serverNamed(f farmed) corev1.Pod {
	pod := server(f.name)
	if f.starts >= 0 {
		waiting("ContainerCreating", "")(&pod)
	}
	if f.sessions >= 10 {
		unready(&pod)
	}
	if f.leaving {
		terminating(&pod)
	}
	return pod
}

// runReplicaSet does what the ReplicaSet does: it creates what is missing, and removes those that aren't
// ready first.
func (f *farm) runReplicaSet() {
	staying := 0
	for _, s := range f.servers {
		if !s.leaving {
			staying++
		}
	}
	for ; staying < int(f.replicas); staying++ {
		f.names++
		f.servers = append(f.servers, farmed{name: fmt.Sprintf("support-%04d", f.names), starts: 2})
	}
	for ; staying > int(f.replicas); staying-- {
		f.servers[f.victim()].leaving = true
	}
}

func (f *farm) victim() int {
	rank := func(s farmed) int64 {
		if s.starts >= 0 {
			return -1
		}
		return s.sessions
	}
	best := -1
	for i, s := range f.servers {
		if !s.leaving && (best < 0 || rank(s) < rank(f.servers[best])) {
			best = i
		}
	}
	return best
}

// play moves sessions to a load, which only servers that stay and are up take on.
func (f *farm) play(want int64) {
	for i := range f.servers {
		s := &f.servers[i]
		if s.starts >= 0 {
			s.starts--
		}
		if s.leaving {
			s.sessions, s.ends = s.sessions/2, s.ends+1
			continue
		}
		s.sessions = 0
		if s.starts < 0 {
			s.sessions = min(10, want)
			want -= s.sessions
		}
	}
	f.servers = slices.DeleteFunc(f.servers, func(s farmed) bool { return s.leaving && s.ends > 3 })
}

// TestReplicasNeverRunAway disturbs the pool: servers are killed or fall silent, the cache lags,
// the load jumps. The number of servers never exceeds what the greatest load calls for, and comes
// to rest there once the disturbance is over.
func TestReplicasNeverRunAway(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		a := bounds(rapid.Int32Range(0, 2).Draw(r, "min"), 100,
			delay(rapid.SampledFrom([]int32{0, 30, 60}).Draw(r, "delay")))
		most := rapid.Int64Range(0, 100).Draw(r, "greatest load")
		ceiling := clamp(load{size: 10, active: most}.serversFor(a, most, true), max(1, *a.MinReplicas), 100)
		start := rapid.Int32Range(0, ceiling).Draw(r, "start")
		f, past, now := &farm{replicas: start, seen: []int32{start}}, history{}, noon
		step := func(want int64, lag int) {
			f.play(want)
			var got scaling
			got, past = decideReplicas(f.snapshot(a, lag, now).snapshot, past)
			// As plan does: what the cache has already isn't written.
			if got.to != got.from {
				f.replicas = got.to
			}
			f.seen, now = append(f.seen, f.replicas), now.Add(scalePollInterval)
			f.runReplicaSet()
			if f.replicas > ceiling {
				r.Fatalf("%d servers, %d sessions call for %d", f.replicas, most, ceiling)
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			for i := range f.servers {
				switch rapid.IntRange(0, 9).Draw(r, "fate") {
				case 0:
					f.servers[i].silent = !f.servers[i].silent
				case 1:
					f.servers[i].leaving = true
				case 2:
					f.servers[i].starts = 3
				}
			}
			step(rapid.Int64Range(0, most).Draw(r, "load"), rapid.IntRange(0, 2).Draw(r, "lag"))
		}
		for i := range f.servers {
			f.servers[i].silent = false
		}
		f.awaited = true
		for range 30 + 4*len(f.servers) {
			step(most, 0)
		}
		if want := clamp(load{size: 10, active: most}.serversFor(a, most, true), *a.MinReplicas,
			100); f.replicas != want {
			r.Fatalf("came to rest at %d servers, %d sessions call for %d", f.replicas, most, want)
		}
	})
}

func BenchmarkAutoscale(b *testing.B) {
	a := bounds(1, 1000)
	past, now := watched(a, 5), noon
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(scalePollInterval)
		_, past = autoscale(a, load{size: 2000, stay: 10, active: int64(i % 20000)}, 10, past, now)
	}
}
