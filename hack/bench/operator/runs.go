package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	// smallRunShards is the number of shards of each of the runs that go on side by side.
	smallRunShards = 2
	// externalEpisodes is the number of episodes of each External run: several segments.
	externalEpisodes = 5 * segmentEpisodes
)

// measureRuns plays one run of very many episodes, and then many runs at the same time, while which
// the operator is killed.
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
	small, err := r.playMany(ctx, s)
	if err != nil {
		return nil, err
	}
	used, err := r.operator.usage()
	if err != nil {
		return nil, err
	}
	peak := max(used.peakMiB, r.killed.peakMiB)
	return append(append(large, small...),
		figure{"manager memory", peak, "MiB", fmt.Sprintf("resident at most: %.0f MiB before, %.0f MiB after the "+
			"large run, %.0f MiB when it was killed, %.0f MiB after its start anew", idle.peakMiB, after.peakMiB,
			r.killed.peakMiB, used.peakMiB)},
	), r.stopOperator()
}

// createRunPool creates the pool that all runs play against, and waits until it offers something.
func (r *rig) createRunPool(ctx context.Context) error {
	if err := r.createNamespace(ctx, runNamespace); err != nil {
		return err
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

// newExternalRun returns a run of type External, which simulated trainers play.
func newExternalRun(i int) *v1alpha1.EvaluationRun {
	return &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: runNamespace, Name: fmt.Sprintf("external-%03d", i)},
		Spec: v1alpha1.EvaluationRunSpec{
			EnvironmentRef: v1alpha1.EnvironmentReference{Name: runPool},
			Agent: v1alpha1.Agent{Type: v1alpha1.ExternalAgent,
				External: &v1alpha1.ExternalAgentSpec{Episodes: new(int64(externalEpisodes))}},
		},
	}
}

// playLarge plays one run with a shard for each scenario.
func (r *rig) playLarge(ctx context.Context, s settings) ([]figure, error) {
	r.tell("playing %d episodes in one run", s.Scenarios*s.Trials)
	began, took, fold := time.Now(), time.Duration(0), time.Duration(0)
	run := newRun("large", int32(s.Trials), int32(s.Scenarios)) //nolint:gosec // the API bounds both to a thousand
	cost, err := r.during(ctx, func(ctx context.Context) error {
		if err := r.client.Create(ctx, run); err != nil {
			return fmt.Errorf("creating a run: %w", err)
		}
		if _, err := r.awaitRuns(ctx, 1); err != nil {
			return err
		}
		took, fold = time.Since(began), time.Since(r.players.lastEnd())
		return r.awaitReleased(ctx)
	})
	if err != nil {
		return nil, err
	}
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
		{
			"large run's reconcile p99",
			toMilliseconds(cost.passes[runController].quantile(0.99)),
			"ms",
			formatPasses(cost, runController),
		},
		{"large run's CPU", cost.cpuSeconds, "s", "of the operator"},
	}, nil
}

func (p *players) lastEnd() time.Time { return time.Unix(0, p.last.Load()) }

// playMany plays many runs side by side; trainers play some of them. The operator is killed once
// half of them are complete.
func (r *rig) playMany(ctx context.Context, s settings) ([]figure, error) {
	r.tell("playing %d runs and %d of trainers at the same time", s.Runs, s.External)
	began, took, idle, all := time.Now(), time.Duration(0), time.Duration(0), s.Runs+s.External
	cost, err := r.during(ctx, func(ctx context.Context) error {
		if err := r.createRuns(ctx, s); err != nil {
			return err
		}
		if _, err := r.awaitRuns(ctx, 1+all/2); err != nil {
			return err
		}
		var err error
		if idle, err = r.replaceOperator(ctx); err != nil {
			return err
		}
		if _, err := r.awaitRuns(ctx, 1+all); err != nil {
			return err
		}
		took = time.Since(began)
		return r.awaitReleased(ctx)
	})
	if err != nil {
		return nil, err
	}
	lost, twice, err := r.audit(ctx)
	if err != nil {
		return nil, err
	}
	return []figure{
		{"many runs", took.Seconds(), "s", fmt.Sprintf("%d runs at once, of %d shards each, and %d of type External, "+
			"of %d episodes each; the death of the operator included", s.Runs, smallRunShards, s.External,
			externalEpisodes)},
		{"operator's writes a run", cost.operator.Sum() / float64(all), "requests", cost.operator.String()},
		{"writes a run", cost.server.Sum() / float64(all), "requests", "of everybody: " + cost.server.String()},
		{
			"many runs' reconcile p99",
			toMilliseconds(cost.passes[runController].quantile(0.99)),
			"ms",
			formatPasses(cost, runController),
		},
		{"taken over", idle.Seconds(), "s", "from kill -9 of the operator to the next complete run; the Lease takes " +
			"most of it"},
		{"episodes lost", float64(lost), "episodes", fmt.Sprintf("in %d runs", 1+all)},
		{"episodes counted twice", float64(twice), "episodes", ""},
	}, nil
}

// replaceOperator kills the operator and starts it again, and returns the time until the next run
// is complete.
func (r *rig) replaceOperator(ctx context.Context) (time.Duration, error) {
	if err := r.killOperator(ctx); err != nil {
		return 0, err
	}
	killed := time.Now()
	complete, err := r.awaitRuns(ctx, 0)
	if err != nil {
		return 0, err
	}
	r.tell("killed the operator after %d runs", complete)
	if err := r.startOperator(ctx); err != nil {
		return 0, err
	}
	_, err = r.awaitRuns(ctx, complete+1)
	return time.Since(killed), err
}

// killOperator kills the operator, as a node that fails would.
func (r *rig) killOperator(ctx context.Context) error {
	done, cpuSeconds, err := r.work(ctx)
	if err != nil {
		return err
	}
	used, err := r.operator.usage()
	if err != nil {
		return err
	}
	r.operator.process.Kill()
	r.operator = nil
	r.killed = mark{passes: done, cpuSeconds: cpuSeconds, peakMiB: max(r.killed.peakMiB, used.peakMiB)}
	return nil
}

// createRuns creates runs of all types in turns.
func (r *rig) createRuns(ctx context.Context, s settings) error {
	for i := range max(s.Runs, s.External) {
		if i < s.External {
			if err := r.client.Create(ctx, newExternalRun(i)); err != nil {
				return fmt.Errorf("creating runs of type External: %w", err)
			}
		}
		if i >= s.Runs {
			continue
		}
		first := i * smallRunShards % s.Scenarios
		run := newRun(fmt.Sprintf("small-%03d", i), 2, smallRunShards, scenarioID(first),
			scenarioID((first+1)%s.Scenarios))
		if err := r.client.Create(ctx, run); err != nil {
			return fmt.Errorf("creating runs: %w", err)
		}
	}
	return nil
}

// audit compares the figures of all runs with what was played.
func (r *rig) audit(ctx context.Context) (lost, twice int64, err error) {
	list := &v1alpha1.EvaluationRunList{}
	if err := r.client.List(ctx, list); err != nil {
		return 0, 0, fmt.Errorf("reading the runs: %w", err)
	}
	for _, run := range list.Items {
		played := run.Status.Episodes.Total
		if run.Spec.Agent.Type == v1alpha1.ExternalAgent {
			played = r.players.trained(run.Name)
		}
		lost += max(0, played-run.Status.Episodes.Scored)
		twice += max(0, run.Status.Episodes.Scored-played)
	}
	return lost, twice, nil
}

// trained is the number of episodes in the segments that the operator has received.
func (p *players) trained(tag string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.segments[tag] * segmentEpisodes
}

// awaitReleased waits until the operator has let go of all runners' pods and nothing is written any
// more.
func (r *rig) awaitReleased(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := r.client.List(ctx, pods, client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentRunner})
		return err == nil && !slices.ContainsFunc(pods.Items, func(pod metav1.PartialObjectMetadata) bool {
			return slices.Contains(pod.Finalizers, podFinalizer)
		}), err
	})
	if err != nil {
		return fmt.Errorf("waiting for the operator to let go of pods: %w", err)
	}
	return r.awaitQuiet(ctx)
}

// errRunFailed means that a run failed.
var errRunFailed = errors.New("a run failed")

// awaitRuns waits until the given number of runs is complete, and returns how many are.
func (r *rig) awaitRuns(ctx context.Context, runs int) (complete int, err error) {
	told := time.Now()
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list := &v1alpha1.EvaluationRunList{}
		if err := r.client.List(ctx, list); err != nil {
			return false, err
		}
		shards := int64(0)
		complete = 0
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
		return complete >= runs, nil
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for runs: %w", err)
	}
	return complete, nil
}
