package environment

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// newest returns the pod with the labels of the newest template.
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
		"boasting":          {size: 10, awaited: true, stay: 1, active: maxSessions},
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

// A server of an earlier spec reports its own capacity, which doesn't apply to new servers.
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
		t.Errorf("servers with more sessions than the spec count as %d", got)
	}
	playing(100)
	if got := serverSize(s.snapshot); got != 10 {
		t.Errorf("servers with fewer sessions than the spec count as %d", got)
	}
	for i := range s.pods {
		outdated(&s.pods[i])
	}
	if got := serverSize(s.snapshot); got != 100 {
		t.Errorf("future servers count as %d", got)
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
		"as in the spec":              {nil, scaling{from: 2, to: 2}},
		"the spec has more":           {[]func(*decision){wants(5)}, scaling{from: 2, to: 5, reason: scaleSpec}},
		"no Deployment yet":           {[]func(*decision){empty}, scaling{from: 2, to: 2}},
		"suspended":                   {[]func(*decision){suspended}, scaling{from: 2, to: 0, reason: scaleSuspended}},
		"suspended before it existed": {[]func(*decision){suspended, empty}, scaling{from: 0, to: 0}},
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

// farm simulates the cluster for one autoscaled pool: a ReplicaSet that removes servers in
// Kubernetes' order, sessions that come and go, and faults.
type farm struct {
	replicas int32   // last number that the operator wrote
	seen     []int32 // contents of the operator's cache, the newest last
	servers  []farmed
	names    int
	awaited  bool
}

type farmed struct {
	name            string
	starts, ends    int // steps until it is up (-1 if it is), and until a terminating one has ended
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

// runReplicaSet acts as the ReplicaSet: it creates missing pods and removes unready ones first.
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

// play changes the number of sessions to a load. Only running servers that stay accept new ones.
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

// TestReplicasNeverRunAway disturbs the pool: servers are killed or don't answer, the cache is
// stale, the load jumps. The number of servers never exceeds the need of the greatest load, and
// stays constant after the disturbance.
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
			// Like plan, it doesn't write a number that the cache already has.
			if got.to != got.from {
				f.replicas = got.to
			}
			f.seen, now = append(f.seen, f.replicas), now.Add(scalePollInterval)
			f.runReplicaSet()
			if f.replicas > ceiling {
				r.Fatalf("%d servers, %d sessions require %d", f.replicas, most, ceiling)
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
			r.Fatalf("the final number is %d servers, %d sessions require %d", f.replicas, most, want)
		}
	})
}
