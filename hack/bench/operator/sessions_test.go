package operator

import (
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/hack/apiwrites"
)

// Servers that run are full, and almost full while sessions end and begin; later ones are empty.
func TestFill(t *testing.T) {
	f, err := newFleet(idleReport(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	f.pods = map[types.UID]*http.Server{"a": {Addr: "127.1.0.1"}, "b": {Addr: "127.1.0.2"}}
	if n := f.active("127.1.0.1"); n != 0 {
		t.Errorf("%d sessions before they open", n)
	}
	if n := f.fill(); n != 2*sessionsPerPod {
		t.Errorf("%d sessions, want those of two pods", n)
	}
	if n := f.active("127.1.0.1"); n != sessionsPerPod {
		t.Errorf("%d sessions of a full server", n)
	}
	if n := f.active("127.1.0.3"); n != 0 {
		t.Errorf("%d sessions of a server that started later", n)
	}
	f.busy.Store(true)
	one, other := f.active("127.1.0.1"), f.active("127.1.0.1")
	if one == other || min(one, other) <= sessionsPerPod-churn {
		t.Errorf("%d and then %d sessions while they change", one, other)
	}
}

func TestPoolSpec(t *testing.T) {
	fixed := poolSpec(settings{PodsPerPool: 5})
	if fixed.Autoscaling != nil || *fixed.Replicas != 5 {
		t.Errorf("%+v", fixed)
	}
	scaled := poolSpec(settings{PodsPerPool: 5, MaxReplicas: 9})
	if scaled.Replicas != nil || *scaled.Autoscaling.MinReplicas != 5 || scaled.Autoscaling.MaxReplicas != 9 {
		t.Errorf("%+v", scaled)
	}
}

func TestGrown(t *testing.T) {
	deployments := make([]appsv1.Deployment, 3)
	deployments[0].Spec.Replicas, deployments[1].Spec.Replicas = new(int32(6)), new(int32(5))
	if n := countScaledUp(deployments, 5); n != 1 {
		t.Errorf("%d Deployments have grown, want one", n)
	}
}

// Every range of the file has a figure, and a write for each session misses its range.
func TestSessionFigures(t *testing.T) {
	all, err := readSettings("ranges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := all["sessions"]
	if sessions := s.Pools * int(s.PodsPerPool) * sessionsPerPod; sessions != 1_002_000 {
		t.Errorf("%d sessions", sessions)
	}
	for writes, kept := range map[float64]bool{30: true, 1_002_000: false} {
		load := mark{operator: apiwrites.Counts{"patch customersupportenvs/status": writes}}
		figures := sessionFigures(s, 1_002_000, 5*time.Second, mark{}, load, usage{peakMiB: 90})
		if got, err := reportFigures(t.Output(), scenario{name: "sessions"}, figures, s.Ranges); err != nil || got != kept {
			t.Errorf("with %.0f writes, kept is %t (%v)", writes, got, err)
		}
	}
}
