package run

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// Random events: episodes end, answers are lost, operators crash at any write and read stale data,
// servers restart, drain, are replaced and exchange their addresses. Nothing is counted twice, and
// only the episodes of killed servers are lost. A run that has ended doesn't change, nor does its
// table.
func TestRolloutsCountExactlyOnce(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			run := trainers(int64(seed%2) * 12)
			run.Spec.Retries.MaxErroredPercent = new(int32(100))
			w, a, b := trainingWorld(t, run)
			story := &rolloutStory{world: w, random: random, servers: []*envServer{a, b}}
			for range 100 {
				story.step()
				story.check()
			}
			story.collectRest()
		})
	}
}

// rolloutStory is a random sequence of events.
type rolloutStory struct {
	*world
	random  *rand.Rand
	servers []*envServer
	views   []*v1alpha1.EvaluationRun
	made    int
	// played counts the ended episodes, lost those of them that were lost with their servers.
	played, lost int64
	// end is the ended run, and table its table.
	end   *v1alpha1.EvaluationRun
	table map[string]string
}

func (s *rolloutStory) step() {
	e := s.servers[s.random.IntN(len(s.servers))]
	switch s.random.IntN(10) {
	case 0, 1, 2:
		outcome := []score.Outcome{score.Scored, score.Failed, score.Errored}[s.random.IntN(3)]
		e.end(s.t, outcome, []string{"B01", "B02", "S01"}[s.random.IntN(3)], s.random.Int64N(score.One+1))
		s.played++
	case 3:
		s.lose(e)
		s.replace(e, e.pod)
	case 4:
		s.drain(e)
	case 5:
		pool := s.r.reader.Pools.(rolloutPool)
		pool["10.0.0.1"], pool["10.0.0.2"] = pool["10.0.0.2"], pool["10.0.0.1"]
	default:
		s.faultyPass()
	}
}

// check compares the counted episodes with the possible ones until the run has ended, and after
// that the run with its final state.
func (s *rolloutStory) check() {
	run := s.run()
	if s.end != nil {
		if diff := cmp.Diff(s.end, run) + cmp.Diff(s.table, s.scores(run).Data); diff != "" {
			s.t.Fatalf("a run that has ended changes: %s", diff)
		}
		return
	}
	if got := inFigures(run); got > s.played-s.lost {
		s.t.Fatalf("%d episodes are counted of %d, %d of which are lost", got, s.played, s.lost)
	}
	if !evaluation.HasEnded(run.Status.Conditions) {
		return
	}
	var sums score.Accumulator
	scores := s.scores(run)
	if err := sums.UnmarshalText([]byte(run.Status.Shards.Accumulator)); err != nil || !sums.Holds(tally.ReadTable(scores)) {
		s.t.Fatalf("the sums %+v don't match the table %s: %v", sums, scores.Data[v1alpha1.ScoresKey], err)
	}
	s.end, s.table = run, scores.Data
}

func (s *rolloutStory) scores(run *v1alpha1.EvaluationRun) *corev1.ConfigMap {
	var table corev1.ConfigMap
	if err := s.client.Get(s.t.Context(), key(run.Status.ScoresRef.Name), &table); err != nil {
		s.t.Fatal(err)
	}
	return &table
}

func inFigures(run *v1alpha1.EvaluationRun) int64 {
	e := run.Status.Episodes
	return e.Scored + e.Failed + e.Errored
}

// lose counts the episodes of a server that are not in the status.
func (s *rolloutStory) lose(e *envServer) {
	s.lost += e.opened
	if e.sealed == nil {
		return
	}
	for _, known := range s.run().Status.Rollouts.Servers {
		if known.Pod == e.pod && known.Instance == e.instance && known.Segment >= e.sealed.Number {
			return
		}
	}
	s.lost += e.sealedOpened
}

// replace restarts a server, in its pod or another.
func (s *rolloutStory) replace(e *envServer, pod string) {
	s.made++
	*e = *newEnvServer(pod)
}

// drain tells a server to drain, or replaces a drained one without remaining segments.
func (s *rolloutStory) drain(e *envServer) {
	var pod corev1.Pod
	if err := s.client.Get(s.t.Context(), key(e.pod), &pod); err != nil {
		s.t.Fatal(err)
	}
	finalizers := `["example.com/hold"]`
	going := !pod.DeletionTimestamp.IsZero()
	if going && (e.sealed != nil || e.opened > 0) {
		return
	}
	if going {
		finalizers = "null"
	}
	if err := s.client.Patch(s.t.Context(), &pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`))); err != nil {
		s.t.Fatal(err)
	}
	if going {
		s.replace(e, fmt.Sprintf("support-%d", s.made))
		s.create(runtest.RunningServer(e.pod, pod.Status.PodIP))
	} else if err := s.client.Delete(s.t.Context(), &pod); err != nil {
		s.t.Fatal(err)
	}
}

// faultyPass runs a pass with lost answers, a crash or a stale run.
func (s *rolloutStory) faultyPass() {
	for _, e := range s.servers {
		e.silent, e.deaf = s.random.IntN(6) == 0, s.random.IntN(4) == 0
	}
	if s.random.IntN(8) == 0 {
		s.unlisted = s.servers[0].pod
	}
	s.views = append(s.views, s.run())
	if s.random.IntN(3) == 0 {
		old := s.views[max(0, len(s.views)-1-s.random.IntN(8))]
		s.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
			run, ok := object.(*v1alpha1.EvaluationRun)
			if ok {
				old.DeepCopyInto(run)
			}
			return ok, nil
		}
	}
	switch s.random.IntN(5) {
	case 0:
		s.fault = func(string, func() error) error { return runtest.ErrCrash }
	case 1:
		s.fault = func(_ string, do func() error) error { return errors.Join(do(), runtest.ErrCrash) }
	}
	if _, err := s.pass(); err != nil && !errors.Is(err, runtest.ErrCrash) {
		s.t.Fatal(err)
	}
	s.read, s.fault, s.unlisted = nil, nil, ""
	s.events()
}

// collectRest collects the remaining episodes without faults, and compares.
func (s *rolloutStory) collectRest() {
	for _, e := range s.servers {
		e.silent, e.deaf = false, false
	}
	s.r.reader.Pools = rolloutPool{"10.0.0.1": s.servers[0], "10.0.0.2": s.servers[1]}
	for range 3 {
		s.mustPass()
		s.check()
	}
	if s.end != nil {
		return
	}
	run := s.run()
	if got := inFigures(run); got != s.played-s.lost {
		s.t.Errorf("%d episodes are counted of %d, %d of which are lost", got, s.played, s.lost)
	}
	for _, e := range s.servers {
		if e.sealed != nil || e.opened > 0 {
			s.t.Errorf("server %s isn't settled", e.pod)
		}
	}
	if refused := testutil.ToFloat64(s.r.metrics.refused.WithLabelValues(tally.RefusedReplayed)); refused > 0 {
		s.t.Errorf("%v segments were refused as repeated", refused)
	}
	if got := ptr.Deref(run.Status.Rollouts, v1alpha1.Rollouts{}); len(got.Servers) > 2 || got.Dropped != 0 {
		s.t.Errorf("%+v", got)
	}
}
