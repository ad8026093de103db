package rules

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/envserver/score"
)

func TestCompareServers(t *testing.T) {
	t.Parallel()
	at := func(created, ready time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.NewTime(noon.Add(created))
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(ready))
		}
	}
	var known map[types.UID]serverMemory
	look := func(unjudged, active int64, pods ...corev1.Pod) (changes Changes) {
		s := healthy().Snapshot
		s.Pods, s.Reports = pods, map[string]score.Report{}
		for _, pod := range pods {
			r := report(active)
			r.JudgeFailures = unjudged
			s.Reports[pod.Name] = r
		}
		changes, known = compareServers(s, known)
		return changes
	}
	old, young := server("old", at(-time.Hour, -time.Minute)), server("young", at(0, 7*time.Second))
	notYet := server("young", unready)
	if changes := look(5, 0, old, notYet); len(changes.TimesToReady) > 0 || changes.Unjudged != 0 {
		t.Errorf("before the first pass: %+v", changes)
	}
	if known["old"].idleSince != noon {
		t.Errorf("remembered %+v", known["old"])
	}
	if changes := look(7, 1, old, young); !slices.Equal(changes.TimesToReady, []time.Duration{7 * time.Second}) ||
		changes.Unjudged != 4 {
		t.Errorf("%+v, want a server that became ready, and two failures to judge of each", changes)
	}
	for range 2 {
		if changes := look(6, 1, old, young); len(changes.TimesToReady) > 0 || changes.Unjudged != 0 {
			t.Errorf("after a restart: %+v", changes)
		}
	}
	if !known["old"].idleSince.IsZero() || known["old"].active != 1 {
		t.Errorf("remembered %+v", known["old"])
	}
	look(6, 1, young)
	if _, stays := known["old"]; !stays {
		t.Error("a server is removed before its end is reported")
	}
	look(6, 1, young)
	if _, stays := known["old"]; stays {
		t.Error("a deleted server stays in the memory")
	}
}
