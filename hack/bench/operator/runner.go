package operator

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

// players are the runners of all runs. They play nothing: what they leave is what a shard's runner
// and a pool's server leave together, a summary with a ledger that the pool's key has signed, so
// that the operator checks and folds it as it does any other.
type players struct {
	client client.Reader

	last atomic.Int64 // when a runner ended last, in nanoseconds

	mu    sync.Mutex
	plans map[string]score.Plan // by UID of the run
	keys  map[client.ObjectKey]ed25519.PrivateKey
	// segments is the number of segments of each External run, by its tag.
	segments map[string]int64
}

func newPlayers(c client.Reader) *players {
	return &players{client: c, plans: map[string]score.Plan{}, keys: map[client.ObjectKey]ed25519.PrivateKey{},
		segments: map[string]int64{}}
}

// The run controller gives these names.
const (
	runnerContainer  = "runner"
	shardsAnnotation = "csenv.dev/shards"
	runUIDLabel      = "csenv.dev/run-uid"
	planKey          = "plan.json"
	planAnnotation   = "csenv.dev/" + planKey
	ledgerKeyFile    = "key.pem"
	podFinalizer     = "csenv.dev/summary"
)

// finish returns the final status of a runner's pod, with its shard's summary.
func (p *players) finish(ctx context.Context, pod *corev1.Pod) (corev1.PodStatus, error) {
	plan, err := p.plan(ctx, pod)
	if err != nil {
		return corev1.PodStatus{}, err
	}
	key, err := p.key(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelEnvironment]})
	if err != nil {
		return corev1.PodStatus{}, err
	}
	shard, err := shardOf(pod)
	if err != nil {
		return corev1.PodStatus{}, err
	}
	summary, err := playShard(plan, shard, key)
	if err != nil {
		return corev1.PodStatus{}, err
	}
	now := metav1.NewTime(time.Now())
	p.last.Store(now.UnixNano())
	return corev1.PodStatus{
		Phase: corev1.PodSucceeded, StartTime: &now, QOSClass: pod.Status.QOSClass,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: runnerContainer, Image: pod.Spec.Containers[0].Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: now, FinishedAt: now,
				Message: string(summary), Reason: "Completed"}},
		}},
	}, nil
}

// shardOf is the shard that a pod plays: the Job's index counts the shards that the Job lists.
func shardOf(pod *corev1.Pod) (int, error) {
	index, err := strconv.ParseInt(pod.Annotations[batchv1.JobCompletionIndexAnnotation], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a runner's index: %w", err)
	}
	shards, err := score.ParseIndexSet(pod.Annotations[shardsAnnotation])
	if err != nil {
		return 0, fmt.Errorf("reading a Job's shards: %w", err)
	}
	shard, ok := shards.At(index)
	if !ok {
		return 0, fmt.Errorf("a Job of shards %s has index %d", shards, index)
	}
	return int(shard), nil
}

func (p *players) plan(ctx context.Context, pod *corev1.Pod) (score.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid := pod.Labels[runUIDLabel]
	if plan, ok := p.plans[uid]; ok {
		return plan, nil
	}
	text, found := pod.Annotations[planAnnotation]
	if !found {
		var file corev1.ConfigMap
		if err := p.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelRun] +
			"-plan"}, &file); err != nil {
			return score.Plan{}, fmt.Errorf("reading a plan: %w", err)
		}
		text = file.Data[planKey]
	}
	plan, err := score.ParsePlan([]byte(text))
	if err != nil {
		return score.Plan{}, err
	}
	p.plans[uid] = plan
	return plan, nil
}

// key is the one with which the servers of a pool sign.
func (p *players) key(ctx context.Context, pool client.ObjectKey) (ed25519.PrivateKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key, ok := p.keys[pool]; ok {
		return key, nil
	}
	var secrets corev1.SecretList
	if err := p.client.List(ctx, &secrets, client.InNamespace(pool.Namespace),
		client.MatchingLabels{v1alpha1.LabelEnvironment: pool.Name}); err != nil {
		return nil, fmt.Errorf("reading a pool's key: %w", err)
	}
	for _, secret := range secrets.Items {
		if len(secret.Data[ledgerKeyFile]) == 0 {
			continue
		}
		key, err := poolkey.Parse(secret.Data[ledgerKeyFile])
		if err != nil {
			return nil, fmt.Errorf("reading a pool's key: %w", err)
		}
		p.keys[pool] = key
		return key, nil
	}
	return nil, fmt.Errorf("pool %s has no key yet", pool)
}

// playShard is the summary of a shard whose episodes have ended with scores that follow from their
// seeds.
func playShard(plan score.Plan, shard int, key ed25519.PrivateKey) ([]byte, error) {
	ledger := score.Ledger{
		Run: plan.Run, Shard: shard, PassScore: plan.PassScore, ScenarioDigest: plan.ScenarioDigest,
		GraderVersion: plan.GraderVersion, Judge: plan.Judge,
	}
	var durations stats.Durations
	for planned := range plan.Shard(shard) {
		points, err := addEpisode(&ledger, planned)
		if err != nil {
			return nil, err
		}
		durations.Observe(points)
	}
	signed, err := ledger.Sign(key)
	if err != nil {
		return nil, fmt.Errorf("signing a ledger: %w", err)
	}
	return score.Summary{Ledger: signed, Durations: durations}.Encode()
}

// addEpisode adds an episode with a score that follows from its seed, and returns its points.
func addEpisode(ledger *score.Ledger, planned score.PlannedEpisode) (points int64, err error) {
	points = planned.Seed % 1001
	ledger.Opened++
	return points, ledger.Add(planned, score.Episode{
		Outcome: score.Scored, Score: points * (score.One / 1000), Category: "billing", Difficulty: "medium",
		Language: "en",
		Dimensions: []score.Dimension{{Name: "classification", Earned: points / 2, Offered: 500},
			{Name: "response", Earned: points / 2, Offered: 500}},
	})
}
