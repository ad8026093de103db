package local

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
)

func ticketKind(t testing.TB) episode.Kind {
	t.Helper()
	kind, err := NewKind(&v1alpha1.CustomerSupportEnv{Spec: v1alpha1.CustomerSupportEnvSpec{
		Environment: v1alpha1.TicketEnvironment}}, testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// options returns the options for a built-in policy.
func options(t testing.TB, name string) Options {
	t.Helper()
	agent, err := policy.NewBuiltin(name, "ticket", testkit.Catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	return Options{Kind: ticketKind(t), Pool: "support", Agent: agent, Version: "test",
		Log: slog.New(slog.DiscardHandler), Clock: rollout.SystemClock()}
}

// testRun returns a run that plays three tickets twice.
func testRun(change func(*v1alpha1.EvaluationRun)) *v1alpha1.EvaluationRun {
	run := &v1alpha1.EvaluationRun{Spec: v1alpha1.EvaluationRunSpec{
		Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.HeuristicPolicy}},
		Tasks: []v1alpha1.TaskSelection{{Name: "ticket-resolve", Trials: 2,
			Scenarios: &v1alpha1.ScenarioSelection{IDs: []string{"B06", "B07", "S03"}}}},
		PassScore: v1alpha1.Number{Text: "0.8"}, Concurrency: new(int32(4)), Parallelism: new(int32(1)),
		Retries: v1alpha1.Retries{EpisodeAttempts: 1, MaxErroredPercent: new(int32(5))},
	}}
	run.Name, run.UID = "test", "0e1c5d9e-0000-0000-0000-000000000000"
	change(run)
	return run
}

func condition(t *testing.T, run *v1alpha1.EvaluationRun, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(run.Status.Conditions, kind)
	if c == nil {
		t.Fatalf("there is no condition %s in %v", kind, run.Status.Conditions)
	}
	return *c
}

func TestPlay(t *testing.T) {
	run := testRun(func(*v1alpha1.EvaluationRun) {})
	o := options(t, policy.Heuristic)
	var last Progress
	var recorded int
	o.Progress = func(p Progress) { last = p }
	var mu sync.Mutex
	o.Record = func(record.Episode) { mu.Lock(); recorded++; mu.Unlock() }
	if err := Play(t.Context(), run, o); err != nil {
		t.Fatal(err)
	}
	if c := condition(t, run, v1alpha1.ConditionComplete); c.Status != metav1.ConditionTrue ||
		c.Reason != v1alpha1.ReasonCompleted {
		t.Errorf("Complete = %+v", c)
	}
	if run.Status.Progress != "6/6" || last.Ended != 6 || last.Total != 6 || last.Scored != 6 || recorded != 6 {
		t.Errorf("progress = %s, %+v, %d recorded; want 6 of 6", run.Status.Progress, last, recorded)
	}
	if run.Status.Score.Mean == "0.0000" || run.Status.Provenance.ScenarioDigest != o.Kind.ScenarioDigest() {
		t.Errorf("status = %+v", run.Status)
	}

	// The number of shards doesn't affect the figures.
	parallel := testRun(func(r *v1alpha1.EvaluationRun) { r.Spec.Parallelism = new(int32(3)) })
	if err := Play(t.Context(), parallel, options(t, policy.Heuristic)); err != nil {
		t.Fatal(err)
	}
	figures := func(s v1alpha1.EvaluationRunStatus) []any {
		return []any{s.Score, s.PassRate, s.PassHatK, s.Tasks, s.Categories, s.Difficulties, s.Languages, s.Episodes}
	}
	if diff := cmp.Diff(figures(run.Status), figures(parallel.Status)); diff != "" ||
		parallel.Status.Shards.Total != 3 {
		t.Errorf("%d shards give other figures than one:\n%s", parallel.Status.Shards.Total, diff)
	}
}

// stuck never acts: it reports its call, and waits for its context to end.
type stuck struct{ asked func() }

func (s stuck) Act(ctx context.Context, _ policy.Turn) (json.RawMessage, error) {
	s.asked()
	<-ctx.Done()
	return nil, ctx.Err()
}

// An interrupted run reports the scores so far, and the missing episodes.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	run := testRun(func(r *v1alpha1.EvaluationRun) {
		r.Spec.Concurrency = new(int32(1))
		r.Spec.Thresholds = []v1alpha1.Threshold{{Metric: v1alpha1.MeanScoreMetric, Min: v1alpha1.Number{Text: "0"}}}
	})
	o := options(t, policy.Heuristic)
	clerk := o.Agent
	begun := 0
	o.Agent = func(planned score.PlannedEpisode) (policy.Policy, error) {
		if begun++; begun <= 3 {
			return clerk(planned)
		}
		return stuck{cancel}, nil
	}
	if err := Play(ctx, run, o); err != nil {
		t.Fatal(err)
	}
	c := condition(t, run, v1alpha1.ConditionFailed)
	if c.Reason != ReasonInterrupted || !strings.Contains(c.Message, "not comparable") ||
		run.Status.Episodes.Scored+run.Status.Episodes.Failed != 3 {
		t.Errorf("Failed = %+v with %+v; want the result of three episodes", c, run.Status.Episodes)
	}
	if run.Status.Shards.CompletedIndexes != "" || run.Status.Score == nil {
		t.Errorf("shards = %+v, score = %+v", run.Status.Shards, run.Status.Score)
	}
	if c := condition(t, run, v1alpha1.ConditionThresholdsMet); c.Status != metav1.ConditionUnknown {
		t.Errorf("ThresholdsMet = %+v, want Unknown", c)
	}
}

// broken returns no action.
type broken struct{}

func (broken) Act(context.Context, policy.Turn) (json.RawMessage, error) {
	return nil, errors.New("the model is gone")
}

func TestDeadline(t *testing.T) {
	run := testRun(func(r *v1alpha1.EvaluationRun) { r.Spec.ActiveDeadlineSeconds = new(int32(1)) })
	o := options(t, policy.Noop)
	o.Agent = func(score.PlannedEpisode) (policy.Policy, error) { return stuck{func() {}}, nil }
	if err := Play(t.Context(), run, o); err != nil {
		t.Fatal(err)
	}
	if c := condition(t, run, v1alpha1.ConditionFailed); c.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("Failed = %+v", c)
	}
}

// A failure of the agent's endpoint has no score. The run ends when it can no longer complete.
func TestErroredEpisodes(t *testing.T) {
	for limit, errored := range map[int32]int64{5: 1, 50: 4, 100: 6} {
		run := testRun(func(r *v1alpha1.EvaluationRun) {
			r.Spec.Concurrency, r.Spec.Retries.MaxErroredPercent = new(int32(1)), &limit
		})
		o := options(t, policy.Noop)
		o.Agent = func(score.PlannedEpisode) (policy.Policy, error) { return broken{}, nil }
		if err := Play(t.Context(), run, o); err != nil {
			t.Fatal(err)
		}
		status := metav1.ConditionTrue
		if limit == 100 {
			status = metav1.ConditionFalse
		}
		if c := condition(t, run, v1alpha1.ConditionFailed); c.Status != status || run.Status.Score != nil ||
			run.Status.Episodes.Errored != errored ||
			(c.Reason == v1alpha1.ReasonTooManyErrored) != (status == metav1.ConditionTrue) {
			t.Errorf("%d %%: Failed = %+v, episodes %+v, score %+v", limit, c, run.Status.Episodes, run.Status.Score)
		}
	}
}

func TestThresholds(t *testing.T) {
	for name, tc := range map[string]struct {
		thresholds []v1alpha1.Threshold
		status     metav1.ConditionStatus
		message    string
	}{
		"reached": {[]v1alpha1.Threshold{{Metric: v1alpha1.MeanScoreMetric, Min: v1alpha1.Number{Text: "1"}}, {Metric: "passHat2",
			Min: v1alpha1.Number{Text: "1"}}, {Metric: v1alpha1.MeanScoreLowMetric, Min: v1alpha1.Number{Text: "0.9"}}}, metav1.ConditionTrue,
			"meanScore is 1.0000, at least 1; passHat2 is"},
		"one of them not": {[]v1alpha1.Threshold{{Metric: v1alpha1.PassRateMetric, Min: v1alpha1.Number{Text: "1"}},
			{Metric: v1alpha1.MeanScoreMetric, Min: v1alpha1.Number{Text: "1.1"}}}, metav1.ConditionFalse, "meanScore is 1.0000, below 1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			run := testRun(func(r *v1alpha1.EvaluationRun) { r.Spec.Thresholds = tc.thresholds })
			if err := Play(t.Context(), run, options(t, policy.Oracle)); err != nil {
				t.Fatal(err)
			}
			if c := condition(t, run, v1alpha1.ConditionThresholdsMet); c.Status != tc.status ||
				!strings.Contains(c.Message, tc.message) {
				t.Errorf("ThresholdsMet = %+v", c)
			}
		})
	}
}

// A threshold that no plan of the spec can meet is refused before the first episode.
func TestUnreachableThreshold(t *testing.T) {
	run := testRun(func(r *v1alpha1.EvaluationRun) {
		r.Spec.Thresholds = []v1alpha1.Threshold{{Metric: "passHat3", Min: v1alpha1.Number{Text: "0"}}}
	})
	err := Play(t.Context(), run, options(t, policy.Oracle))
	if c := condition(t, run, v1alpha1.ConditionFailed); err == nil || c.Reason != v1alpha1.ReasonInvalidPlan ||
		!strings.Contains(c.Message, "passHat3, which takes 3 trials") {
		t.Errorf("Play() = %v, Failed = %+v", err, c)
	}
}

func TestUID(t *testing.T) {
	kind := ticketKind(t)
	uid := func(change func(*v1alpha1.EvaluationRun)) string {
		id, err := ComputeUID(testRun(change), kind)
		if err != nil {
			t.Fatal(err)
		}
		return string(id)
	}
	same := uid(func(*v1alpha1.EvaluationRun) {})
	if got := uid(func(r *v1alpha1.EvaluationRun) { r.Spec.TTLSecondsAfterFinished = nil }); got != same {
		t.Errorf("the same spec gives different runs: %s and %s", got, same)
	}
	if got := uid(func(r *v1alpha1.EvaluationRun) {
		r.Spec.Parallelism, r.Spec.Concurrency = new(int32(7)), new(int32(9))
	}); got != same {
		t.Error("a run that is played faster is another run")
	}
	if got := uid(func(r *v1alpha1.EvaluationRun) {
		r.Spec.Thresholds = []v1alpha1.Threshold{{Metric: v1alpha1.MeanScoreMetric}}
		r.Spec.Retries.EpisodeAttempts = 9
	}); got != same {
		t.Error("a run with other thresholds and retries is another run")
	}
	if got := uid(func(r *v1alpha1.EvaluationRun) { r.Spec.Seed = new(int64(7)) }); got == same {
		t.Error("another seed is the same run")
	}
}

func TestAgentConfig(t *testing.T) {
	config, err := AgentConfig(v1alpha1.Agent{Type: v1alpha1.OpenAIAgent, OpenAI: &v1alpha1.OpenAIAgentSpec{
		BaseURL: "http://localhost:1/v1", Model: "m", MaxTokens: new(int32(5)),
		APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"},
	}})
	if err != nil || config.OpenAI.Model != "m" || config.OpenAI.MaxTokens != 5 {
		t.Errorf("AgentConfig() = %+v, %v", config.OpenAI, err)
	}
	config, err = AgentConfig(v1alpha1.Agent{Type: v1alpha1.ContainerAgent,
		Container: &v1alpha1.ContainerAgentSpec{Image: "i", Args: []string{"a"}, Port: 81, Path: "/p"}})
	if err != nil || config.Container.Port != 81 {
		t.Errorf("AgentConfig() = %+v, %v", config.Container, err)
	}
}

func TestReach(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckConnection(t.Context(), "http://"+listener.Addr().String()+"/v1"); err != nil {
		t.Error(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CheckConnection(t.Context(), "http://"+listener.Addr().String()+"/v1"); err == nil ||
		!strings.Contains(err.Error(), "can't be reached") {
		t.Errorf("Reach() = %v", err)
	}
}

func TestCustomer(t *testing.T) {
	pool := &v1alpha1.CustomerSupportEnv{Spec: v1alpha1.CustomerSupportEnvSpec{
		Customer: v1alpha1.Customer{Type: v1alpha1.LLMCustomer, LLM: &v1alpha1.LLMCustomerSpec{
			BaseURL: "http://localhost:1/v1", Model: "m", MaxConcurrency: 3, TimeoutSeconds: 9,
			APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"},
		}}}}
	if _, err := NewCustomerOptions(pool, func(string) (string, bool) { return "", false }); err == nil ||
		!strings.Contains(err.Error(), envvars.CustomerKey) {
		t.Errorf("without a key: %v", err)
	}
	o, err := NewCustomerOptions(pool, func(string) (string, bool) { return "key", true })
	if err != nil || o.StepTimeout() != 18*time.Second || o.Model.APIKey != "key" || o.Model.MaxConcurrency != 3 {
		t.Errorf("the customer is %+v, %v", o.Model, err)
	}
	none, err := NewCustomerOptions(&v1alpha1.CustomerSupportEnv{}, nil)
	if made, madeErr := none.New(); err != nil || madeErr != nil || made != nil {
		t.Errorf("without a model: %v, %v, %v", made, err, madeErr)
	}
}

func TestJudge(t *testing.T) {
	pool := &v1alpha1.CustomerSupportEnv{Spec: v1alpha1.CustomerSupportEnvSpec{
		Judge: v1alpha1.Judge{Type: v1alpha1.LLMJudge, LLM: &v1alpha1.LLMJudgeSpec{
			BaseURL: "http://localhost:1/v1", Model: "m", MaxConcurrency: 3, TimeoutSeconds: 9,
			OnFailure: v1alpha1.JudgeFailureOffline, APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"},
		}}}}
	if _, err := NewJudgeOptions(pool, func(string) (string, bool) { return "", false }); err == nil ||
		!strings.Contains(err.Error(), envvars.JudgeKey) {
		t.Errorf("without a key: %v", err)
	}
	o, err := NewJudgeOptions(pool, func(string) (string, bool) { return "key", true })
	if err != nil || o.Model.Timeout != 9*time.Second || o.Model.APIKey != "key" || o.Model.OnFailure != "offline" {
		t.Errorf("Judge() = %+v, %v", o.Model, err)
	}
}

// A resumed run continues where it was interrupted, with the figures of an uninterrupted one.
func TestResume(t *testing.T) {
	folder := t.TempDir()
	one := func(r *v1alpha1.EvaluationRun) { r.Spec.Concurrency = new(int32(1)) }
	play := func(ctx context.Context, agent policy.Factory) (*v1alpha1.EvaluationRun, Progress) {
		store, err := results.Open(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		run := testRun(one)
		o := options(t, policy.Heuristic)
		o.Store, o.Location, o.LedgerKey = store, folder, PublicSeedKey(run.UID)
		if agent != nil {
			o.Agent = agent
		}
		var last Progress
		o.Progress = func(p Progress) { last = p }
		if err := Play(ctx, run, o); err != nil {
			t.Fatal(err)
		}
		return run, last
	}
	ctx, cancel := context.WithCancel(t.Context())
	clerk, begun := options(t, policy.Heuristic).Agent, 0
	broken, _ := play(ctx, func(planned score.PlannedEpisode) (policy.Policy, error) {
		if begun++; begun <= 4 {
			return clerk(planned)
		}
		return stuck{cancel}, nil
	})
	if c := condition(t, broken, v1alpha1.ConditionResultsStored); c.Status != metav1.ConditionUnknown {
		t.Errorf("ResultsStored = %+v", c)
	}
	resumed, last := play(t.Context(), nil)
	if last.Resumed != 4 || resumed.Status.Progress != "6/6" ||
		condition(t, resumed, v1alpha1.ConditionResultsStored).Status != metav1.ConditionTrue {
		t.Errorf("progress %+v, status %+v", last, resumed.Status)
	}
	whole := testRun(one)
	if err := Play(t.Context(), whole, options(t, policy.Heuristic)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{whole.Status.Score, whole.Status.Tasks, whole.Status.Categories},
		[]any{resumed.Status.Score, resumed.Status.Tasks, resumed.Status.Categories}); diff != "" {
		t.Errorf("resumed (-whole +resumed)\n%s", diff)
	}
}
