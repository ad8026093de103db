package run

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/stats"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/score"
)

// envServer is a server of the pool, with the rollouts that a real server stores.
type envServer struct {
	pod      string
	rollouts *ledger.Rollouts
	tag      string
	// opened counts the episodes in no segment. sealed is the segment without an acknowledgement,
	// with sealedOpened episodes. instance and number are those of the last segment.
	opened, sealedOpened, number, active int64
	sealed                               *score.Segment
	instance                             string
	// silent servers don't answer. deaf servers' answers are lost.
	silent, deaf, refuses bool
	asked                 []score.CollectRequest
	// forge, if set, changes the returned segments.
	forge func(*score.Segment)
}

// graderKind has the properties in a segment's ledger.
type graderKind struct {
	episode.Kind
	version string
}

func (graderKind) ScenarioDigest() string { return runtest.DigestA }

func (graderKind) Judge() string { return "offline-v1" }

func (k graderKind) GraderVersion() string { return k.version }

func newEnvServer(pod string) *envServer {
	e := &envServer{pod: pod, tag: runtest.RunName}
	e.restart("1")
	return e
}

// restart restarts the server with another grader.
func (e *envServer) restart(grader string) {
	e.rollouts = ledger.NewRollouts(graderKind{version: grader}, e.pod, runtest.PoolKey(), slog.New(slog.DiscardHandler))
}

// end counts an ended episode.
func (e *envServer) end(t testing.TB, outcome score.Outcome, scenario string, points int64) {
	t.Helper()
	recorder, err := e.rollouts.Open(e.tag)
	if err == nil {
		_, err = recorder.Finish(score.PlannedEpisode{Task: "ticket-resolve", Scenario: scenario},
			score.Episode{Outcome: outcome, Score: points, Category: "billing", Difficulty: "easy", Language: "en",
				Dimensions: []score.Dimension{{Name: "reply", Earned: points / 1000, Offered: 1000}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	e.opened++
}

func (e *envServer) collect(request score.CollectRequest) (score.Segment, error) {
	e.asked = append(e.asked, request)
	if e.silent {
		return score.Segment{}, errors.New("no route to host")
	}
	if e.refuses {
		return score.Segment{}, fmt.Errorf("asking: %w", &stats.StatusError{Path: "/rollouts", Code: 404})
	}
	segment, err := e.rollouts.Collect(request)
	if err != nil {
		return segment, err
	}
	e.sealed = nil
	if segment.Ledger != nil {
		if e.instance != segment.Instance || e.number != segment.Number {
			e.sealedOpened, e.opened = e.opened, 0
		}
		e.sealed, e.instance, e.number = new(segment), segment.Instance, segment.Number
	}
	segment.Active = e.active
	if e.forge != nil {
		e.forge(&segment)
	}
	if e.deaf {
		return score.Segment{}, errors.New("the connection was reset")
	}
	return segment, nil
}

// resign changes a segment's ledger and signs it with another key.
func resign(s *score.Segment, key ed25519.PrivateKey, change func(*score.Ledger)) {
	changed, err := s.Ledger.Verify(runtest.PoolKey().Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	change(changed)
	signed, err := changed.Sign(key)
	if err != nil {
		panic(err)
	}
	s.Ledger = &signed
}

// rolloutPool returns the servers by address.
type rolloutPool map[string]*envServer

func (p rolloutPool) Report(context.Context, string, string, ...string) (score.Report, error) {
	return runtest.NewReport(), nil
}

func (p rolloutPool) Rollouts(_ context.Context, podIP, _ string, question score.CollectRequest) (score.Segment,
	error) {
	return p[podIP].collect(question)
}

// trainers returns a run that collects episodes of trainers.
func trainers(episodes int64) *v1alpha1.EvaluationRun {
	run := runtest.NewRun()
	run.Spec.Agent, run.Spec.Tasks = v1alpha1.Agent{Type: v1alpha1.ExternalAgent}, nil
	if episodes > 0 {
		run.Spec.Agent.External = &v1alpha1.ExternalAgentSpec{Episodes: &episodes}
	}
	return run
}

// trainingWorld returns a world with a run that collects from two servers.
func trainingWorld(t *testing.T, run *v1alpha1.EvaluationRun) (w *world, a, b *envServer) {
	t.Helper()
	w = newWorld(t, runtest.NewPool(), runtest.RunningServer("support-a", "10.0.0.1"), runtest.RunningServer("support-b", "10.0.0.2"), run)
	a, b = newEnvServer("support-a"), newEnvServer("support-b")
	w.r.reader.Pools = rolloutPool{"10.0.0.1": a, "10.0.0.2": b}
	w.mustPass()
	return w, a, b
}

func (w *world) wait(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *world) complete() metav1.Condition {
	for _, c := range w.run().Status.Conditions {
		if c.Type == v1alpha1.ConditionComplete {
			return c
		}
	}
	return metav1.Condition{}
}
