package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// newest returns the pod with the labels of the newest template.
func newest(s pass, pod corev1.Pod) corev1.Pod {
	pod.Annotations = children.BuildPodTemplate(s.Pool, s.Scenarios).Annotations
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
		s.Pods, s.Reports, s.Env.Spec.Sessions.PerPod, s.Awaited = nil, map[string]score.Report{}, 10, true
		for _, name := range names {
			s.Pods = append(s.Pods, newest(s, pods[name].pod))
			if answer := pods[name].answer; answer != nil {
				s.Reports[name] = *answer
			}
		}
		return summariseLoad(s.Snapshot)
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
		"boasting":          {size: 10, awaited: true, stay: 1, active: snapshot.MaxSessions},
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
		s.Env.Spec.Sessions.PerPod = perPod
		for i := range s.Pods {
			s.Pods[i] = newest(s, s.Pods[i])
		}
	}
	playing(8)
	if got := measureServer(s.Snapshot); got != 8 {
		t.Errorf("servers with more sessions than the spec count as %d", got)
	}
	playing(100)
	if got := measureServer(s.Snapshot); got != 10 {
		t.Errorf("servers with fewer sessions than the spec count as %d", got)
	}
	for i := range s.Pods {
		outdated(&s.Pods[i])
	}
	if got := measureServer(s.Snapshot); got != 100 {
		t.Errorf("future servers count as %d", got)
	}
}

func TestDecideReplicas(t *testing.T) {
	t.Parallel()
	suspended := func(s *pass) { s.Env.Spec.OperatingMode = v1alpha1.SuspendedMode }
	autoscaled := func(a *v1alpha1.Autoscaling) func(*pass) {
		return func(s *pass) { s.Env.Spec.Autoscaling, s.Env.Spec.Sessions.PerPod = a, 10 }
	}
	tests := map[string]struct {
		edits []func(*pass)
		want  Scaling
	}{
		"as in the spec":              {nil, Scaling{From: 2, To: 2}},
		"the spec has more":           {[]func(*pass){wants(5)}, Scaling{From: 2, To: 5, Reason: scaleSpec}},
		"no Deployment yet":           {[]func(*pass){empty}, Scaling{From: 2, To: 2}},
		"suspended":                   {[]func(*pass){suspended}, Scaling{From: 2, To: 0, Reason: scaleSuspended}},
		"suspended before it existed": {[]func(*pass){suspended, empty}, Scaling{From: 0, To: 0}},
		"suspended though scaled": {[]func(*pass){autoscaled(bounds(1, 5)), suspended},
			Scaling{From: 2, To: 0, Reason: scaleSuspended}},
		"autoscaled": {[]func(*pass){autoscaled(bounds(3, 5))},
			Scaling{From: 2, To: 3, Reason: scaleMinimum, Limit: v1alpha1.ReasonAtMinimum}},
		"autoscaled from nothing": {[]func(*pass){autoscaled(bounds(0, 5)), empty},
			Scaling{From: 1, To: 1, Limit: v1alpha1.ReasonWithinLimits}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := decideReplicas(healthy(tt.edits...).Snapshot, history{})
			tt.want.Why, tt.want.needed = got.Why, got.needed
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Scaling{})); diff != "" {
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

func (f *farm) snapshot(a *v1alpha1.Autoscaling, lag int, now time.Time) pass {
	s := healthy()
	s.Env.Spec.Autoscaling, s.Env.Spec.Sessions.PerPod, s.Now, s.Awaited = a, 10, now, f.awaited
	d := rolledOut(s.Env)
	d.Spec.Replicas = new(f.seen[max(0, len(f.seen)-1-lag)])
	s.Live[children.ID{Kind: children.KindDeployment, Name: s.Env.Name}] = d
	s.Pods, s.Reports = nil, map[string]score.Report{}
	for _, server := range f.servers {
		pod := serverNamed(server)
		s.Pods = append(s.Pods, pod)
		if !server.silent && pods.IsServing(&pod) {
			s.Reports[pod.Name] = score.Report{Draining: server.leaving,
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
		ceiling := limitNumber(load{size: 10, active: most}.serversFor(a, most, true), max(1, *a.MinReplicas), 100)
		start := rapid.Int32Range(0, ceiling).Draw(r, "start")
		f, past, now := &farm{replicas: start, seen: []int32{start}}, history{}, noon
		step := func(want int64, lag int) {
			f.play(want)
			var got Scaling
			got, past = decideReplicas(f.snapshot(a, lag, now).Snapshot, past)
			// Like ListSteps, it doesn't write a number that the cache already has.
			if got.To != got.From {
				f.replicas = got.To
			}
			f.seen, now = append(f.seen, f.replicas), now.Add(5*time.Second)
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
		if want := limitNumber(load{size: 10, active: most}.serversFor(a, most, true), *a.MinReplicas,
			100); f.replicas != want {
			r.Fatalf("the final number is %d servers, %d sessions require %d", f.replicas, most, want)
		}
	})
}
