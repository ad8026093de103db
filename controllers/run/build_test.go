package run

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
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
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

const (
	namespace = "default"
	poolName  = "support"
	runName   = "baseline"
	// operatorImage and operatorVersion are those of the operator, and of its runners.
	operatorImage, operatorVersion = "csenv:test", "v1.2.3"
	// envReady, envMissing and notFailed are parts of states.
	envReady   = "EnvironmentReady=True/EnvironmentAvailable "
	envMissing = "EnvironmentReady=False/EnvironmentNotFound "
	notFailed  = " Failed=False/NotFailed"
	digestA    = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// start returns the time at which every test begins.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func poolKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

func otherKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
}

func publicText(key ed25519.PrivateKey) string {
	return score.FormatPublicKey(key.Public().(ed25519.PublicKey))
}

// poolKeys has the secrets of every pool.
type poolKeys struct{}

func (poolKeys) Secrets(context.Context, types.NamespacedName, string) (*poolkey.Secrets, error) {
	return poolkey.Derive(poolKey())
}

// offer returns the report of the pool's servers.
func offer() score.Report {
	scenario := func(id, category string) score.Scenario {
		return score.Scenario{ID: id, Category: category, Difficulty: "easy", Language: "en", Split: "public"}
	}
	all := []score.Scenario{scenario("B01", "billing"), scenario("B02", "billing"), scenario("S01", "shipping"),
		scenario("T01", "technical")}
	return score.Report{
		Environment: "ticket", ScenarioDigest: digestA, GraderVersion: "1", Judge: "offline-v1",
		Tasks: []score.Task{{Name: "ticket-classify", Scenarios: all[:3]}, {Name: "ticket-resolve", Scenarios: all}},
	}
}

// pool returns an available pool.
func pool() *v1alpha1.CustomerSupportEnv {
	return &v1alpha1.CustomerSupportEnv{
		ObjectMeta: metav1.ObjectMeta{Name: poolName, Namespace: namespace, UID: "pool-uid", Generation: 1},
		Status: v1alpha1.CustomerSupportEnvStatus{
			Image: "csenv:test", ScenarioDigest: digestA, GraderVersion: "1", Judge: "offline-v1",
			LedgerPublicKey: publicText(poolKey()),
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue,
				Reason: v1alpha1.ReasonServersReady}},
		},
	}
}

// server returns a ready pod of the pool.
func server(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{
			v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer, v1alpha1.LabelName: v1alpha1.LabelNameValue,
			v1alpha1.LabelEnvironment: poolName,
		}},
		Status: corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// newTestRun plays both tasks, two trials each: 14 episodes over 4 scenarios, so at most 4 shards.
func newTestRun() *v1alpha1.EvaluationRun {
	return &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Name: runName, Namespace: namespace, UID: "run-uid", Generation: 1},
		Spec: v1alpha1.EvaluationRunSpec{
			EnvironmentRef: v1alpha1.EnvironmentReference{Name: poolName},
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

// snap returns the snapshot of a run that has not begun.
func snap() snapshot {
	report := offer()
	return snapshot{run: newTestRun(), env: pool(), report: &report, version: operatorVersion, now: start()}
}

func testOptions() Options { return Options{Image: operatorImage, Version: operatorVersion} }

// readerOf returns a reader that doesn't poll in the background.
func readerOf(cache, direct client.Reader, now clock.PassiveClock) *Reader {
	return &Reader{cache: cache, metadata: cache, direct: direct, pools: fakePool{"10.0.0.1": offer()},
		keys: poolKeys{}, clock: now, contents: newContents(), version: operatorVersion}
}

// begun returns the snapshot of a run whose plan and Job exist.
func begun(t testing.TB) (snapshot, score.Plan) {
	t.Helper()
	s := snap()
	d := decide(s)
	if d.createPlan == nil {
		t.Fatalf("the run doesn't begin: %+v", d.status.Conditions)
	}
	planMap, err := planConfigMap(s.run, *d.createPlan)
	if err != nil {
		t.Fatal(err)
	}
	s.run.Status = d.status
	s.planMap, s.job, s.report = planMap, jobOf(s, *d.createJob), nil
	return s, *d.createPlan
}

// jobOf makes a Job of the snapshot's run.
func jobOf(s snapshot, spec jobSpec) *batchv1.Job {
	return runnerJob(s.run, s.env, runnerOptions{image: operatorImage}, spec)
}

// beginRun returns a run that has begun, and its plan.
func beginRun(t testing.TB) (*v1alpha1.EvaluationRun, score.Plan) {
	t.Helper()
	run, env := newTestRun(), pool()
	plan, _, err := evaluation.Begin(run, &run.Status, evaluation.Offer{Pool: poolName,
		LedgerKey: env.Status.LedgerPublicKey, Report: offer()})
	if err != nil {
		t.Fatal(err)
	}
	return run, plan
}

// playing lists the differences of a shard's summary from an honest one.
type playing struct {
	key     ed25519.PrivateKey
	errored []int64
	change  func(*score.Ledger)
}

// summaryOf plays a shard like an env server and a runner. An episode's score follows from its
// index.
func summaryOf(t testing.TB, plan score.Plan, shard int, p playing) string {
	t.Helper()
	ledger := &score.Ledger{
		Run: plan.Run, Shard: shard, PassScore: plan.PassScore,
		ScenarioDigest: plan.ScenarioDigest, GraderVersion: plan.GraderVersion, Judge: plan.Judge,
	}
	summary := score.Summary{Retried: 1, Errored: []score.ErrorClass{{Class: "timeout"}}}
	for _, index := range p.errored {
		summary.Errored[0].Episodes.Add(index)
	}
	for ep := range plan.Shard(shard) {
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
	if p.change != nil {
		p.change(ledger)
	}
	if p.key == nil {
		p.key = poolKey()
	}
	var err error
	if summary.Ledger, err = ledger.Sign(p.key); err != nil {
		t.Fatal(err)
	}
	data, err := summary.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// runnerPodOf returns a pending pod of a run's first Job.
func runnerPodOf(run *v1alpha1.EvaluationRun, shard int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", run.Name, shard), Namespace: run.Namespace,
			UID:    types.UID(fmt.Sprintf("pod-%d", shard)),
			Labels: runLabels(run), Finalizers: []string{summaryFinalizer, batchv1.JobTrackingFinalizer},
			CreationTimestamp: metav1.NewTime(start()),
			Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(shard),
				annotationShards: "0-3", annotationAttempt: "1"},
		},
		Spec: runnerJob(run, nil, runnerOptions{image: operatorImage},
			jobSpec{attempt: 1, shards: allShards()}).Spec.Template.Spec,
	}
}

// allShards returns the shards of newTestRun's plan.
func allShards() score.IndexSet {
	var shards score.IndexSet
	for shard := range int64(4) {
		shards.Add(shard)
	}
	return shards
}

// ends changes a pod to one that ended in a phase with a termination message.
func ends(pod *corev1.Pod, phase corev1.PodPhase, message string) *corev1.Pod {
	pod.Spec.NodeName = "node"
	pod.Status.Phase = phase
	end := &corev1.ContainerStateTerminated{Message: message, StartedAt: metav1.NewTime(start()),
		FinishedAt: metav1.NewTime(start().Add(90 * time.Second))}
	if phase == corev1.PodFailed {
		end.ExitCode = 1
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: runnerContainer, State: corev1.ContainerState{Terminated: end}}}
	return pod
}

// keptBySidecar changes a pod whose runner has ended to one that a mesh's proxy keeps running.
func keptBySidecar(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: "istio-proxy",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	return pod
}

func succeeded(t testing.TB, run *v1alpha1.EvaluationRun, plan score.Plan, shard int) *corev1.Pod {
	t.Helper()
	return ends(runnerPodOf(run, shard), corev1.PodSucceeded, summaryOf(t, plan, shard, playing{}))
}

// deleting marks a pod as being deleted, with a deadline after the start of the test.
func deleting(pod *corev1.Pod, deadline time.Duration) *corev1.Pod {
	pod.DeletionTimestamp = new(metav1.NewTime(start().Add(deadline)))
	return pod
}

// pulling changes a pod to one that waits for its image.
func pulling(pod *corev1.Pod) *corev1.Pod {
	pod = runnerWaits(pod, "ImagePullBackOff")
	pod.Status.ContainerStatuses[0].State.Waiting.Message = `Back-off pulling image "csenv:tset"`
	return pod
}

// runnerWaits changes a pod to one whose runner waits for this reason.
func runnerWaits(pod *corev1.Pod, reason string) *corev1.Pod {
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: pod.CreationTimestamp}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: runnerContainer, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason},
	}}}
	return pod
}

// agentWaits changes a pod to one whose runner waits for its agent, whose container is in this
// state.
func agentWaits(pod *corev1.Pod, agent corev1.ContainerStatus) *corev1.Pod {
	pod = pulling(pod)
	pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	agent.Name = agentContainer
	pod.Spec.InitContainers = []corev1.Container{{Name: agentContainer,
		Ports: []corev1.ContainerPort{{ContainerPort: 9000}}}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{agent}
	return pod
}

// fakePool returns the reports of servers by address.
type fakePool map[string]score.Report

func (f fakePool) Report(_ context.Context, podIP, _ string) (score.Report, error) {
	report, ok := f[podIP]
	if !ok {
		return score.Report{}, fmt.Errorf("dialling %s: %w", podIP, io.ErrUnexpectedEOF)
	}
	return report, nil
}

var errCrash = errors.New("the operator crashed")

// states abbreviates conditions as "Complete=False/Running", and omits the normal value of
// Suspended.
func states(conditions []metav1.Condition) string {
	var parts []string
	for _, c := range conditions {
		if c.Reason == v1alpha1.ReasonNotSuspended || c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionCompared ||
			c.Type == v1alpha1.ConditionStalled {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(parts, " ")
}

func podNames(pods []corev1.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return strings.Join(names, " ")
}

func waits(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func endsWith(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}

func (f fakePool) Rollouts(_ context.Context, podIP, _ string, _ score.CollectRequest) (score.Segment, error) {
	return score.Segment{}, fmt.Errorf("server %s has no rollouts", podIP)
}

func secretKey(name string) *v1alpha1.SecretKeyReference {
	return &v1alpha1.SecretKeyReference{Name: name, Key: "key"}
}

// agents returns one agent of each type, with every field of its spec.
func agents() map[string]v1alpha1.Agent {
	return map[string]v1alpha1.Agent{
		"Heuristic": {Type: v1alpha1.BuiltinAgent,
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.HeuristicPolicy}},
		"gpt-x": {Type: v1alpha1.OpenAIAgent, OpenAI: &v1alpha1.OpenAIAgentSpec{
			BaseURL: "https://models.example/v1", Model: "gpt-x", APIKeySecretRef: secretKey("models"),
			Mode: v1alpha1.JSONMode, Temperature: v1alpha1.Number{Text: "0.7"}, MaxTokens: new(int32(512)),
			RequestsPerMinute: new(int32(60)), TimeoutSeconds: 30, SystemPrompt: strings.Repeat("ü$(HOME)\x01", 3600),
			ExtraBody: &apiextensionsv1.JSON{Raw: []byte(`{"top_k":1}`)},
		}},
		"agent.example:8443": {Type: v1alpha1.HTTPAgent, HTTP: &v1alpha1.HTTPAgentSpec{
			URL: "https://agent.example:8443/act", TokenSecretRef: secretKey("agent"), TimeoutSeconds: 30}},
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
