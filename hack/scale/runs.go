package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	runController = "run"
	runNamespace  = "runs"
	runPool       = "support"
	runTask       = "ticket-resolve"
	// smallRunShards are those of each of the runs that go on side by side.
	smallRunShards = 2
)

// measureRuns plays one run of very many episodes, and then many runs at the same time.
func measureRuns(ctx context.Context, r *rig, s settings) ([]figure, error) {
	if err := r.startOperator(ctx); err != nil {
		return nil, err
	}
	if err := r.createRunPool(ctx); err != nil {
		return nil, err
	}
	idle, err := r.operator.usage()
	if err != nil {
		return nil, err
	}
	large, err := r.playLarge(ctx, s)
	if err != nil {
		return nil, err
	}
	after, err := r.operator.usage()
	if err != nil {
		return nil, err
	}
	small, err := r.playSmall(ctx, s)
	if err != nil {
		return nil, err
	}
	used, err := r.operator.usage()
	if err != nil {
		return nil, err
	}
	return append(append(large, small...),
		figure{"manager memory", used.peakMiB, "MiB", fmt.Sprintf("resident at most: %.0f MiB before, %.0f MiB after "+
			"the large run, %.0f MiB after all", idle.peakMiB, after.peakMiB, used.peakMiB)},
	), r.stopOperator()
}

// createRunPool creates the pool that all runs play against, and waits until it offers something.
func (r *rig) createRunPool(ctx context.Context) error {
	if err := r.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runNamespace}}); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	pool := &v1alpha1.CustomerSupportEnv{
		ObjectMeta: metav1.ObjectMeta{Namespace: runNamespace, Name: runPool},
		Spec: v1alpha1.CustomerSupportEnvSpec{Replicas: new(int32(1)),
			Sessions: v1alpha1.SessionLimits{PerPod: sessionsPerPod}},
	}
	if err := r.client.Create(ctx, pool); err != nil {
		return fmt.Errorf("creating a pool: %w", err)
	}
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := r.client.Get(ctx, client.ObjectKeyFromObject(pool), pool)
		return err == nil && isSettled(*pool, 1), err
	})
	if err != nil {
		return fmt.Errorf("waiting for the pool: %w", err)
	}
	return nil
}

// newRun returns a run of the oracle, which the simulated runners play.
func newRun(name string, trials, parallelism int32, scenarios ...string) *v1alpha1.EvaluationRun {
	run := &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: runNamespace, Name: name},
		Spec: v1alpha1.EvaluationRunSpec{
			EnvironmentRef: v1alpha1.EnvironmentReference{Name: runPool},
			Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
				Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.OraclePolicy}},
			Tasks:       []v1alpha1.TaskSelection{{Name: runTask, Trials: trials}},
			Parallelism: &parallelism,
		},
	}
	if len(scenarios) > 0 {
		run.Spec.Tasks[0].Scenarios = &v1alpha1.ScenarioSelection{IDs: scenarios}
	}
	return run
}

// playLarge plays one run with a shard for each scenario.
func (r *rig) playLarge(ctx context.Context, s settings) ([]figure, error) {
	r.tell("playing %d episodes in one run", s.Scenarios*s.Trials)
	began := time.Now()
	run := newRun("large", int32(s.Trials), int32(s.Scenarios)) //nolint:gosec // the API bounds both to a thousand
	cost, err := r.during(ctx, func(ctx context.Context) error {
		if err := r.client.Create(ctx, run); err != nil {
			return fmt.Errorf("creating a run: %w", err)
		}
		return r.awaitRuns(ctx, 1)
	})
	if err != nil {
		return nil, err
	}
	took, fold := time.Since(began), time.Since(r.players.lastEnd())
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(run), run); err != nil {
		return nil, fmt.Errorf("reading the run: %w", err)
	}
	if run.Status.Episodes.Scored != int64(s.Scenarios*s.Trials) {
		return nil, fmt.Errorf("the run counts %+v", *run.Status.Episodes)
	}
	status, err := json.Marshal(run.Status)
	if err != nil {
		return nil, fmt.Errorf("measuring the status: %w", err)
	}
	shards := float64(run.Status.Shards.Total)
	return []figure{
		{"large run", took.Seconds(), "s", fmt.Sprintf("%d episodes in %.0f shards, from its creation to its "+
			"figures; the simulated runners take most of it", s.Scenarios*s.Trials, shards)},
		{"fold", fold.Seconds(), "s", "from the end of the last runner to the figures"},
		{"operator's writes a shard", cost.operator.Sum() / shards, "requests", cost.operator.String()},
		{"status", float64(len(status)) / 1024, "KiB", "of the large run, as JSON"},
		{"large run's reconcile p99", ms(cost.passes[runController].quantile(0.99)), "ms", passes(cost, runController)},
		{"large run's CPU", cost.cpuSeconds, "s", "of the operator"},
	}, nil
}

// playSmall plays many runs side by side.
func (r *rig) playSmall(ctx context.Context, s settings) ([]figure, error) {
	r.tell("playing %d runs at the same time", s.Runs)
	began := time.Now()
	cost, err := r.during(ctx, func(ctx context.Context) error {
		for i := range s.Runs {
			first := i * smallRunShards % s.Scenarios
			run := newRun(fmt.Sprintf("small-%03d", i), 2, smallRunShards, scenarioID(first),
				scenarioID((first+1)%s.Scenarios))
			if err := r.client.Create(ctx, run); err != nil {
				return fmt.Errorf("creating runs: %w", err)
			}
		}
		return r.awaitRuns(ctx, s.Runs+1)
	})
	if err != nil {
		return nil, err
	}
	shards := float64(s.Runs * smallRunShards)
	return []figure{
		{"small runs", time.Since(began).Seconds(), "s", fmt.Sprintf("%d runs at once, of %d shards each", s.Runs,
			smallRunShards)},
		{"operator's writes a small run", cost.operator.Sum() / float64(s.Runs), "requests",
			fmt.Sprintf("%.3g a shard: %s", cost.operator.Sum()/shards, cost.operator)},
		{"small runs' reconcile p99", ms(cost.passes[runController].quantile(0.99)), "ms", passes(cost, runController)},
	}, nil
}

// errRunFailed means that a run failed.
var errRunFailed = errors.New("a run failed")

// awaitRuns waits until the given number of runs is complete.
func (r *rig) awaitRuns(ctx context.Context, runs int) error {
	told := time.Now()
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list := &v1alpha1.EvaluationRunList{}
		if err := r.client.List(ctx, list); err != nil {
			return false, err
		}
		complete, shards := 0, int64(0)
		for _, run := range list.Items {
			if failed := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionFailed); failed != nil &&
				failed.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("%w: %s: %s", errRunFailed, run.Name, failed.Message)
			}
			if run.Status.Shards != nil {
				counted, err := score.ParseIndexSet(run.Status.Shards.CompletedIndexes)
				if err != nil {
					return false, err
				}
				shards += counted.Len()
			}
			if meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionComplete) {
				complete++
			}
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			r.tell("%d of %d runs are complete, %d shards are counted", complete, runs, shards)
		}
		return complete == runs, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for runs: %w", err)
	}
	return nil
}
