package rules

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Annotations = maps.Clone(pod.Annotations)
		pod.Annotations[key] = value
	}
}

// costs returns the deletion costs that the marks write; "-" removes one.
func costs(all []Mark) map[string]string {
	got := map[string]string{}
	for _, m := range all {
		if cost, set := m.Annotations[deletionCost]; set {
			got[m.Pod] = "-"
			if cost != nil {
				got[m.Pod] = *cost
			}
		}
	}
	return got
}

func TestDeletionCosts(t *testing.T) {
	t.Parallel()
	pods := []corev1.Pod{
		server("busy"), server("busier"), server("idle"), server("silent"), server("going", terminating),
		server("starting", waiting("ContainerCreating", "")),
		server("as before", annotated(deletionCost, "3")), server("less than before", annotated(deletionCost, "9")),
		server("idle now", annotated(deletionCost, "9")),
	}
	reports := map[string]score.Report{
		"busy": report(3), "busier": report(7), "idle": report(0), "going": report(5), "as before": report(3),
		"less than before": report(2), "idle now": report(0),
	}
	all := map[string]string{"busy": "3", "busier": "7", "silent": "100000", "less than before": "2", "idle now": "-"}
	tests := map[string]struct {
		from, to int32
		pods     []corev1.Pod
		want     map[string]string
	}{
		"fewer servers":   {8, 3, pods, all},
		"as many servers": {8, 8, pods, map[string]string{}},
		"more servers":    {3, 8, pods, map[string]string{}},
		"none at all":     {8, 0, pods, map[string]string{}},
		"fewer, and all are idle": {2, 1, []corev1.Pod{server("idle"),
			server("starting", waiting("ContainerCreating", ""))}, map[string]string{}},
		"fewer, and one is silent": {2, 1, []corev1.Pod{server("idle"), server("silent")},
			map[string]string{"silent": "100000"}},
		"before there is a Deployment": {-1, 2, nil, map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			s.Pods, s.Reports, s.Scaling = tt.pods, reports, Scaling{From: tt.from, To: tt.to}
			if diff := cmp.Diff(tt.want, costs(mark(s, nil))); diff != "" {
				t.Errorf("costs (-want +got):\n%s", diff)
			}
		})
	}
}

// removed returns the pods that a ReplicaSet would remove: unready ones first, then those with the
// lowest cost.
func removed(servers []corev1.Pod, n int) []corev1.Pod {
	cost := func(pod corev1.Pod) (c int) {
		_, _ = fmt.Sscan(pod.Annotations[deletionCost], &c)
		return c
	}
	rank := func(pod corev1.Pod) int {
		if pods.IsReady(&pod) {
			return 1
		}
		return 0
	}
	order := slices.Clone(servers)
	slices.SortFunc(order, func(a, b corev1.Pod) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return cost(a) - cost(b)
	})
	return order[:n]
}

// For all states of the servers and all earlier costs: autoscaling removes no server with sessions
// while an idle one stays. If none is idle, the server with the fewest sessions is removed.
func TestIdleServersGoFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := healthy()
		s.Env.Spec.Sessions.PerPod, s.Env.Spec.Autoscaling = 10, bounds(0, 20)
		s.Pods, s.Reports = nil, map[string]score.Report{}
		n := rapid.IntRange(1, 12).Draw(r, "servers")
		for i := range n {
			pod := server(fmt.Sprintf("support-%02d", i))
			if old := rapid.IntRange(0, 3).Draw(r, "old cost"); old > 0 {
				annotated(deletionCost, fmt.Sprint(old))(&pod)
			}
			switch active := rapid.Int64Range(-2, 10).Draw(r, "sessions"); active {
			case -2:
				waiting("ContainerCreating", "")(&pod)
			case -1: // no answer
			case 10:
				unready(&pod)
				fallthrough
			default:
				s.Reports[pod.Name] = report(active)
			}
			s.Pods = append(s.Pods, pod)
		}
		from := int32(n)
		s.Live[children.ID{Kind: children.KindDeployment, Name: s.Env.Name}].(*appsv1.Deployment).Spec.Replicas = &from
		needed := rapid.Int64Range(0, 12).Draw(r, "needed")
		s.Scaling, _ = decideReplicas(s.Snapshot, watched(s.Env.Spec.Autoscaling, needed))
		if s.Scaling.To >= from {
			return
		}
		for _, m := range mark(s, nil) {
			i := slices.IndexFunc(s.Pods, func(pod corev1.Pod) bool { return pod.Name == m.Pod })
			s.Pods[i].Annotations = maps.Clone(s.Pods[i].Annotations)
			for key, value := range m.Annotations {
				delete(s.Pods[i].Annotations, key)
				if value != nil {
					s.Pods[i].Annotations[key] = *value
				}
			}
		}
		sessions := func(pod corev1.Pod) int64 {
			if report, ok := s.Reports[pod.Name]; ok || !pods.IsServing(&pod) {
				return report.Sessions.Active
			}
			return snapshot.MaxSessions
		}
		gone := removed(s.Pods, int(from-s.Scaling.To))
		for _, pod := range gone {
			for _, other := range s.Pods {
				stays := !slices.ContainsFunc(gone, func(g corev1.Pod) bool { return g.Name == other.Name })
				if stays && sessions(other) < sessions(pod) {
					r.Fatalf("%s with %d sessions is removed, %s with %d stays", pod.Name, sessions(pod), other.Name,
						sessions(other))
				}
			}
		}
	})
}

func TestEviction(t *testing.T) {
	t.Parallel()
	long, lately := noon.Add(-idleBeforeEviction), noon.Add(time.Second-idleBeforeEviction)
	tests := map[string]struct {
		now      string
		idle     time.Time
		answered bool
		user     bool
		want     string
	}{
		"played":                              {"false", time.Time{}, true, false, ""},
		"idle lately":                         {"false", lately, true, false, ""},
		"idle for long":                       {"false", long, true, false, "true"},
		"idle for long, already marked":       {"true", long, true, false, ""},
		"idle lately, after a restart":        {"true", lately, true, false, ""},
		"played again":                        {"true", time.Time{}, true, false, "false"},
		"silent":                              {"true", time.Time{}, false, false, ""},
		"silent after it was idle for long":   {"false", long, false, false, ""},
		"played, and the user decides":        {"true", time.Time{}, true, true, ""},
		"idle for long, and the user decides": {"false", long, true, true, ""},
		"a template without it":               {"", long, true, false, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := server("support-a", annotated(children.SafeToEvict, tt.now))
			if tt.now == "" {
				delete(pod.Annotations, children.SafeToEvict)
			}
			s := healthy()
			s.Pods = []corev1.Pod{pod}
			if !tt.answered {
				s.Reports = nil
			}
			if tt.user {
				s.Env.Spec.Template = &v1alpha1.PodOverrides{Annotations: map[string]string{children.SafeToEvict: tt.now}}
			}
			got := ""
			for _, m := range mark(s, map[types.UID]serverMemory{pod.UID: {idleSince: tt.idle}}) {
				got += *m.Annotations[children.SafeToEvict]
			}
			if got != tt.want {
				t.Errorf("says %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTemplateForbidsEviction(t *testing.T) {
	t.Parallel()
	s := healthy()
	if got := children.BuildPodTemplate(s.Pool, s.Scenarios).Annotations[children.SafeToEvict]; got != "false" {
		t.Errorf("the template has %q", got)
	}
	s.Env.Spec.Template = &v1alpha1.PodOverrides{Annotations: map[string]string{children.SafeToEvict: "true"}}
	if got := children.BuildPodTemplate(s.Pool, s.Scenarios).Annotations[children.SafeToEvict]; got != "true" {
		t.Errorf("the template has %q, want the user's true", got)
	}
}
