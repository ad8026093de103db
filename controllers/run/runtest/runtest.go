// Package runtest makes the runs, pools, pods and summaries of the tests of controllers/run.
package runtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// The names of the objects, and what their status has.
const (
	Namespace = "default"
	PoolName  = "support"
	RunName   = "baseline"
	// OperatorImage and OperatorVersion are the operator's, and its runners'.
	OperatorImage, OperatorVersion = "csenv:test", "v1.2.3"
	// EnvReady, EnvMissing and NotFailed are parts of states.
	EnvReady   = "EnvironmentReady=True/EnvironmentAvailable "
	EnvMissing = "EnvironmentReady=False/EnvironmentNotFound "
	NotFailed  = " Failed=False/NotFailed"
	DigestA    = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// StartTime returns the time at which every test begins.
func StartTime() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// PoolKey signs the pool's ledgers.
func PoolKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

// OtherKey is another pool's.
func OtherKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
}

// PublicText is the public half of a key, as a status has it.
func PublicText(key ed25519.PrivateKey) string {
	return score.FormatPublicKey(key.Public().(ed25519.PublicKey))
}

// PoolKeys has the secrets of every pool.
type PoolKeys struct{}

// Secrets derives the secrets of PoolKey.
func (PoolKeys) Secrets(context.Context, types.NamespacedName, string) (*poolkey.Secrets, error) {
	return poolkey.DeriveSecrets(PoolKey())
}

// NewReport returns the report of the pool's servers.
func NewReport() score.Report {
	scenario := func(id, category string) score.Scenario {
		return score.Scenario{ID: id, Category: category, Difficulty: "easy", Language: "en", Split: "public"}
	}
	all := []score.Scenario{scenario("B01", "billing"), scenario("B02", "billing"), scenario("S01", "shipping"),
		scenario("T01", "technical")}
	return score.Report{
		Protocol: score.Protocol, Environment: "ticket", ScenarioDigest: DigestA, GraderVersion: "1",
		Judge: "offline-v1",
		Tasks: []score.Task{{Name: "ticket-classify", Scenarios: all[:3]}, {Name: "ticket-resolve", Scenarios: all}},
	}
}

// NewPool returns an available pool.
func NewPool() *v1alpha1.CustomerSupportEnv {
	return &v1alpha1.CustomerSupportEnv{
		ObjectMeta: metav1.ObjectMeta{Name: PoolName, Namespace: Namespace, UID: "pool-uid", Generation: 1},
		Status: v1alpha1.CustomerSupportEnvStatus{
			Image: "csenv:test", ScenarioDigest: DigestA, GraderVersion: "1", Judge: "offline-v1",
			LedgerPublicKey: PublicText(PoolKey()),
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue,
				Reason: v1alpha1.ReasonServersReady}},
		},
	}
}

// NewServer returns a ready pod of the pool.
func NewServer(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{
			v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer, v1alpha1.LabelName: v1alpha1.LabelNameValue,
			v1alpha1.LabelEnvironment: PoolName,
		}},
		Status: corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// NewRun plays both tasks, two trials each: 14 episodes over 4 scenarios, so at most 4 shards.
func NewRun() *v1alpha1.EvaluationRun {
	return &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Name: RunName, Namespace: Namespace, UID: "run-uid", Generation: 1},
		Spec: v1alpha1.EvaluationRunSpec{
			EnvironmentRef: v1alpha1.EnvironmentReference{Name: PoolName},
			Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
				Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.HeuristicPolicy}},
			Tasks: []v1alpha1.TaskSelection{{Name: "ticket-classify", Trials: 2},
				{Name: "ticket-resolve", Trials: 2}},
			Seed: ptr.To[int64](42), Parallelism: ptr.To[int32](4), Concurrency: ptr.To[int32](16),
			PassScore: v1alpha1.Number{Text: "0.8"},
			Retries: v1alpha1.Retries{EpisodeAttempts: 3, ShardBackoffLimit: ptr.To[int32](2),
				MaxErroredPercent: ptr.To[int32](10)},
		},
	}
}

// ParsePlan parses the plan in the inputs of runners.
func ParsePlan(t testing.TB, inputs map[string]string) score.Plan {
	t.Helper()
	plan, err := score.ParsePlan([]byte(inputs[runner.PlanKey]))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// BeginRun returns a run that has begun, and its plan.
func BeginRun(t testing.TB) (*v1alpha1.EvaluationRun, score.Plan) {
	t.Helper()
	run, env := NewRun(), NewPool()
	plan, _, err := evaluation.BeginRun(run, &run.Status, evaluation.Offer{Pool: PoolName,
		LedgerKey: env.Status.LedgerPublicKey, Report: NewReport()})
	if err != nil {
		t.Fatal(err)
	}
	return run, plan
}

// Playing lists the differences of a shard's summary from an honest one.
type Playing struct {
	Key     ed25519.PrivateKey
	Errored []int64
	Begun   int64 // attempts of earlier runners
	Sealed  bool  // the pool withholds scores
	Tokens  int64 // of prompts
	// Unplayed is the number of episodes at the end of the shard that the budget left.
	Unplayed int64
	Change   func(*score.Ledger)
}

// SummaryOf plays a shard like an env server and a runner. An episode's score follows from its
// index.
func SummaryOf(t testing.TB, plan score.Plan, shard int, p Playing) string {
	t.Helper()
	ledger := &score.Ledger{
		Run: plan.Run, Shard: shard, PassScore: plan.PassScore,
		ScenarioDigest: plan.ScenarioDigest, GraderVersion: plan.GraderVersion, Judge: plan.Judge,
	}
	summary := score.Summary{Retried: 1, Begun: p.Begun, Errored: []score.ErrorClass{{Class: "timeout"}}}
	for _, index := range p.Errored {
		summary.Errored[0].Episodes.Add(index)
	}
	summary.Tokens.Prompt, summary.Unplayed = p.Tokens, p.Unplayed
	left := -p.Unplayed
	for range plan.Shard(shard) {
		left++
	}
	for ep := range plan.Shard(shard) {
		if left--; left < 0 {
			break
		}
		ledger.Opened++
		if summary.Errored[0].Episodes.Contains(ep.Index) {
			continue
		}
		points := ep.Index * 37 % 11 * 100_000
		e := score.Episode{
			Outcome: score.Scored, Score: min(points, score.One), Category: map[byte]string{'B': "billing",
				'S': "shipping", 'T': "technical"}[ep.Scenario[0]],
			Difficulty: "easy", Language: "en", Dimensions: []score.Dimension{{Name: "category", Earned: points / 5000,
				Offered: 200}},
		}
		if err := ledger.Add(ep, e); err != nil {
			t.Fatal(err)
		}
	}
	if p.Change != nil {
		p.Change(ledger)
	}
	if p.Key == nil {
		p.Key = PoolKey()
	}
	var err error
	if summary.Ledger, err = ledger.Sign(p.Key); err != nil {
		t.Fatal(err)
	}
	if p.Sealed {
		secrets, err := poolkey.DeriveSecrets(p.Key)
		if err != nil {
			t.Fatal(err)
		}
		summary.Ledger = summary.Ledger.Seal(secrets.Scores)
	}
	data, err := summary.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// RunnerPod returns a pending pod of a run's first Job.
func RunnerPod(run *v1alpha1.EvaluationRun, shard int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", run.Name, shard), Namespace: run.Namespace,
			UID:    types.UID(fmt.Sprintf("pod-%d", shard)),
			Labels: runner.MakeLabels(run), Finalizers: []string{runner.SummaryFinalizer, batchv1.JobTrackingFinalizer},
			CreationTimestamp: metav1.NewTime(StartTime()),
			Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(shard),
				runner.AnnotationShards: "0-3", runner.AnnotationJobAttempt: "1"},
		},
		Spec: runner.MakeJob(run, nil, runner.Options{Image: OperatorImage},
			runner.JobSpec{JobAttempt: 1, Shards: AllShards()}).Spec.Template.Spec,
	}
}

// AllShards returns the shards of NewRun's plan.
func AllShards() score.IndexSet {
	var shards score.IndexSet
	for shard := range int64(4) {
		shards.Add(shard)
	}
	return shards
}

// EndPod changes a pod to one that ended in a phase with a termination message.
func EndPod(pod *corev1.Pod, phase corev1.PodPhase, message string) *corev1.Pod {
	pod.Spec.NodeName = "node"
	pod.Status.Phase = phase
	end := &corev1.ContainerStateTerminated{Message: message, StartedAt: metav1.NewTime(StartTime()),
		FinishedAt: metav1.NewTime(StartTime().Add(90 * time.Second))}
	if phase == corev1.PodFailed {
		end.ExitCode = 1
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: runner.Container, State: corev1.ContainerState{Terminated: end}}}
	return pod
}

// KeepBySidecar changes a pod whose runner has ended to one that a mesh's proxy keeps running.
func KeepBySidecar(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "istio-proxy",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	return pod
}

// NewSucceededPod returns a pod whose runner has played a shard.
func NewSucceededPod(t testing.TB, run *v1alpha1.EvaluationRun, plan score.Plan, shard int) *corev1.Pod {
	t.Helper()
	return EndPod(RunnerPod(run, shard), corev1.PodSucceeded, SummaryOf(t, plan, shard, Playing{}))
}

// MarkDeleting marks a pod as being deleted, with a deadline after the start of the test.
func MarkDeleting(pod *corev1.Pod, deadline time.Duration) *corev1.Pod {
	pod.DeletionTimestamp = new(metav1.NewTime(StartTime().Add(deadline)))
	return pod
}

// MarkPulling changes a pod to one that waits for its image.
func MarkPulling(pod *corev1.Pod) *corev1.Pod {
	pod = RunnerWaits(pod, "ImagePullBackOff")
	pod.Status.ContainerStatuses[0].State.Waiting.Message = `Back-off pulling image "csenv:tset"`
	return pod
}

// RunnerWaits changes a pod to one whose runner waits for this reason.
func RunnerWaits(pod *corev1.Pod, reason string) *corev1.Pod {
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: pod.CreationTimestamp}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: runner.Container, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason},
	}}}
	return pod
}

// AgentWaits changes a pod to one whose runner waits for its agent, whose container is in this
// state.
func AgentWaits(pod *corev1.Pod, agent corev1.ContainerStatus) *corev1.Pod {
	pod = MarkPulling(pod)
	pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	agent.Name = runner.AgentContainer
	pod.Spec.InitContainers = []corev1.Container{{Name: runner.AgentContainer,
		Ports: []corev1.ContainerPort{{ContainerPort: 9000}}}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{agent}
	return pod
}

// FakePool returns the reports of servers by address.
type FakePool map[string]score.Report

// Report returns the report of an address, with the counts of the runs that are asked for.
func (f FakePool) Report(_ context.Context, podIP, _ string, runs ...string) (score.Report, error) {
	report, ok := f[podIP]
	if !ok {
		return score.Report{}, fmt.Errorf("dialling %s: %w", podIP, io.ErrUnexpectedEOF)
	}
	report.Runs = slices.DeleteFunc(slices.Clone(report.Runs), func(r score.RunReport) bool {
		return !slices.Contains(runs, r.Run)
	})
	return report, nil
}

// ErrCrash ends a pass after a write.
var ErrCrash = errors.New("the operator crashed")

// FormatConditions abbreviates conditions as "Complete=False/Running", and omits the normal value
// of Suspended.
func FormatConditions(conditions []metav1.Condition) string {
	var parts []string
	for _, c := range conditions {
		if c.Reason == v1alpha1.ReasonNotSuspended || c.Type == v1alpha1.ConditionReady ||
			c.Type == v1alpha1.ConditionCompared || c.Type == v1alpha1.ConditionStalled {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(parts, " ")
}

// PodNames lists the names of pods.
func PodNames(pods []corev1.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return strings.Join(names, " ")
}

// NewWaitingState is the state of a container that waits.
func NewWaitingState(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

// EndsWith is the state of a container that has ended.
func EndsWith(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}

// Rollouts returns an error: the servers have no segments.
func (f FakePool) Rollouts(_ context.Context, podIP, _ string, _ score.CollectRequest) (score.Segment, error) {
	return score.Segment{}, fmt.Errorf("server %s has no rollouts", podIP)
}

// SecretKey refers to a key of a Secret.
func SecretKey(name string) *v1alpha1.SecretKeyReference {
	return &v1alpha1.SecretKeyReference{Name: name, Key: "key"}
}

// ListAgents returns one agent of each type, with every field of its spec.
func ListAgents() map[string]v1alpha1.Agent {
	return map[string]v1alpha1.Agent{
		"Heuristic": {Type: v1alpha1.BuiltinAgent,
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.HeuristicPolicy}},
		"gpt-x": {Type: v1alpha1.OpenAIAgent, OpenAI: &v1alpha1.OpenAIAgentSpec{
			BaseURL: "https://models.example/v1", Model: "gpt-x", APIKeySecretRef: SecretKey("models"),
			Mode: v1alpha1.JSONMode, Temperature: v1alpha1.Number{Text: "0.7"}, MaxTokens: new(int32(512)),
			RequestsPerMinute: new(int32(60)), TimeoutSeconds: 30, SystemPrompt: strings.Repeat("ü$(HOME)\x01", 3600),
			ExtraBody: &apiextensionsv1.JSON{Raw: []byte(`{"top_k":1}`)},
		}},
		"agent.example:8443": {Type: v1alpha1.HTTPAgent, HTTP: &v1alpha1.HTTPAgentSpec{
			URL: "https://agent.example:8443/act", TokenSecretRef: SecretKey("agent"), TimeoutSeconds: 30}},
		"registry.example/agent:1": {Type: v1alpha1.ContainerAgent, Container: &v1alpha1.ContainerAgentSpec{
			Image: "registry.example/agent:1", Command: []string{"/agent"}, Args: []string{"--fast"},
			Env: []corev1.EnvVar{{Name: "MODEL", Value: "x"}},
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "agent"}}}},
			VolumeMounts:        []v1alpha1.PodVolumeMount{{Name: "plan", MountPath: "/weights"}},
			StartTimeoutSeconds: 3600,
			Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("1Gi")}}, Port: 9000, Path: "/act", TimeoutSeconds: 30,
		}},
	}
}

// SetSuspend changes whether a run is suspended.
func SetSuspend(run *v1alpha1.EvaluationRun, yes bool) { run.Spec.Suspend = new(yes) }

// RunningServer returns a pod of the pool whose server answers.
func RunningServer(name, ip string) *corev1.Pod {
	pod := NewServer(name, ip)
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// ImageID is how a node names an image by its digest.
func ImageID(digit string) string {
	return "registry.example/csenv@sha256:" + strings.Repeat(digit, 64)
}

// SecretFiles are the secrets that a Job's runners read: the Secret and its key by the file.
func SecretFiles(job *batchv1.Job) map[string]string {
	files := map[string]string{}
	for _, v := range job.Spec.Template.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			for _, item := range s.Secret.Items {
				files[item.Path] = s.Secret.Name + "/" + item.Key
			}
		}
	}
	return files
}
