package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/score"
)

// wantCondition is an expected condition, whose message contains the words.
type wantCondition struct {
	status metav1.ConditionStatus
	reason string
	words  string
}

func (w wantCondition) check(t *testing.T, got metav1.Condition) {
	t.Helper()
	if got.Status != w.status || got.Reason != w.reason || !strings.Contains(got.Message, w.words) {
		t.Errorf("%s is %s, %s: %q\nwant %s, %s: …%s…", got.Type, got.Status, got.Reason, got.Message, w.status,
			w.reason, w.words)
	}
	for _, name := range []string{"NAMESPACE", "POOL", "SERVER", "KEY_SECRET", "PUBLIC_KEY"} {
		if strings.Contains(got.Message, name) {
			t.Errorf("%s isn't replaced in %q", name, got.Message)
		}
	}
}

func full(s *pass) {
	for i := range s.Pods {
		unready(&s.Pods[i])
		s.Reports[s.Pods[i].Name] = report(10)
	}
	s.Live[children.ID{Kind: children.KindDeployment, Name: s.Env.Name}] = rolledOut(s.Env,
		func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 })
}

func empty(s *pass) { s.Live, s.Pods, s.Reports = map[children.ID]snapshot.Object{}, nil, nil }

func suspended(s *pass) { s.Env.Spec.OperatingMode, s.Scaling.To = v1alpha1.SuspendedMode, 0 }

func wants(n int32) func(*pass) {
	return func(s *pass) { s.Env.Spec.Replicas, s.Scaling.To = new(n), n }
}

func TestAvailable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		edit func(*pass)
		want wantCondition
	}{
		"all ready": {func(*pass) {}, wantCondition{metav1.ConditionTrue, v1alpha1.ReasonServersReady,
			"2 of 2 servers accept sessions at ws://support.shop.svc:8000"}},
		"more than wanted": {wants(1), wantCondition{metav1.ConditionTrue, v1alpha1.ReasonServersReady, "2 of 2 servers"}},
		"one ready": {withDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }),
			wantCondition{metav1.ConditionTrue, v1alpha1.ReasonServersReady, "1 of 2"}},
		"none ready": {withDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 }),
			wantCondition{metav1.ConditionFalse, v1alpha1.ReasonNoServerReady,
				"None of 2 servers accepts sessions. No action is needed."}},
		"none ready because of a fault": {
			func(s *pass) {
				withDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 })(s)
				withPod(server("support-c", waiting("ImagePullBackOff", "no such host")))(s)
			}, wantCondition{metav1.ConditionFalse, v1alpha1.ReasonNoServerReady,
				"None of 2 servers accepts sessions. See condition Degraded."},
		},
		"all full": {full, wantCondition{metav1.ConditionFalse, v1alpha1.ReasonServersFull,
			"raise spec.replicas"}},
		"nothing yet": {empty, wantCondition{metav1.ConditionFalse, v1alpha1.ReasonNoServerReady, "None of 2"}},
		"scaled to zero": {wants(0), wantCondition{metav1.ConditionFalse, v1alpha1.ReasonScaledToZero,
			"spec.replicas is 0"}},
		"unused": {func(s *pass) { s.Env.Spec.Autoscaling, s.Scaling.To = bounds(0, 5), 0 },
			wantCondition{metav1.ConditionFalse, v1alpha1.ReasonScaledToZero, "An EvaluationRun starts a server"}},
		"suspended": {suspended, wantCondition{metav1.ConditionFalse, v1alpha1.ReasonSuspended,
			"set it to Running"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.check(t, evaluate(Available, healthy(tt.edit)))
		})
	}
}

func TestProgressing(t *testing.T) {
	t.Parallel()
	rolling := func(words string) wantCondition {
		return wantCondition{metav1.ConditionTrue, v1alpha1.ReasonRollingOut, words}
	}
	tests := map[string]struct {
		edit func(*pass)
		want wantCondition
	}{
		"at rest": {func(*pass) {}, wantCondition{metav1.ConditionFalse, v1alpha1.ReasonRolledOut,
			"All 2 servers"}},
		"full":        {full, wantCondition{metav1.ConditionFalse, v1alpha1.ReasonRolledOut, "All 2 servers"}},
		"nothing yet": {empty, rolling("0 of 2 servers run the newest template")},
		"too many":    {wants(1), rolling("1 of 2 servers are removed, and 2 are ready.")},
		// The Deployment was read before the apply, so its counts are outdated.
		"just applied": {func(s *pass) { s.Applied = true }, rolling("2 of 2")},
		"not yet observed": {withDeployment(func(d *appsv1.Deployment) { d.Generation = 2 }),
			rolling("2 of 2")},
		"one older server": {withDeployment(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }),
			rolling("1 of 2")},
		"one surging server": {withDeployment(func(d *appsv1.Deployment) { d.Status.Replicas = 3 }),
			rolling("2 of 2")},
		"one starting": {withDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }),
			rolling("1 are ready")},
		"scaling up": {wants(3), rolling("2 of 3")},
		"stuck": {withDeployment(stuck),
			wantCondition{metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded, "is stuck: 1 of 2"}},
		"held up by a full server": {func(s *pass) { full(s); withDeployment(stuck)(s) }, rolling("1 of 2")},
		"suspending":               {suspended, rolling("2 of 2 servers are removed")},
		"suspended": {func(s *pass) {
			suspended(s)
			withDeployment(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1} })(s)
		}, wantCondition{metav1.ConditionFalse, v1alpha1.ReasonSuspended, "Remaining servers end"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.check(t, evaluate(Progressing, healthy(tt.edit)))
		})
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	at := func(status metav1.ConditionStatus, reason string) wantCondition {
		return wantCondition{status, reason, ""}
	}
	oneStarting := withDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 })
	tests := map[string]struct {
		edit func(*pass)
		want wantCondition
	}{
		"at rest":      {func(*pass) {}, at(metav1.ConditionTrue, v1alpha1.ReasonServersReady)},
		"full":         {full, at(metav1.ConditionTrue, v1alpha1.ReasonServersFull)},
		"nothing yet":  {empty, at(metav1.ConditionFalse, v1alpha1.ReasonRollingOut)},
		"one starting": {oneStarting, at(metav1.ConditionFalse, v1alpha1.ReasonRollingOut)},
		"one starting for autoscaling": {func(s *pass) {
			s.Env.Spec.Autoscaling = bounds(0, 5)
			oneStarting(s)
		}, at(metav1.ConditionTrue, v1alpha1.ReasonServersReady)},
		"an older server, with autoscaling": {func(s *pass) {
			s.Env.Spec.Autoscaling = bounds(0, 5)
			withDeployment(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 })(s)
		}, at(metav1.ConditionFalse, v1alpha1.ReasonRollingOut)},
		"a fault": {withPod(server("support-c", waiting("ImagePullBackOff", "no such host"))),
			at(metav1.ConditionFalse, v1alpha1.ReasonImagePullFailed)},
		"suspended": {func(s *pass) {
			suspended(s)
			withDeployment(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1} })(s)
		}, at(metav1.ConditionTrue, v1alpha1.ReasonSuspended)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := meta.FindStatusCondition(computeStatus(healthy(tt.edit)).Conditions, v1alpha1.ConditionReady)
			tt.want.check(t, *c)
		})
	}
}

func TestScalingLimited(t *testing.T) {
	t.Parallel()
	limits := map[string]wantCondition{
		v1alpha1.ReasonAtMaximum: {metav1.ConditionTrue, v1alpha1.ReasonAtMaximum,
			"more servers than spec.autoscaling.maxReplicas, 9. Raise it"},
		v1alpha1.ReasonAtMinimum: {metav1.ConditionTrue, v1alpha1.ReasonAtMinimum,
			"fewer servers than spec.autoscaling.minReplicas, 2. Lower it"},
		v1alpha1.ReasonWithinLimits: {metav1.ConditionFalse, v1alpha1.ReasonWithinLimits, "from 2 to 9"},
	}
	for limit, want := range limits {
		s := healthy(func(s *pass) { s.Env.Spec.Autoscaling, s.Scaling.Limit = bounds(2, 9), limit })
		c := meta.FindStatusCondition(computeStatus(s).Conditions, v1alpha1.ConditionScalingLimited)
		if c == nil {
			t.Fatalf("no condition for %s", limit)
		}
		want.check(t, *c)
	}
	s := healthy()
	s.Env.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScalingLimited, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonAtMaximum}}
	if c := meta.FindStatusCondition(computeStatus(s).Conditions, v1alpha1.ConditionScalingLimited); c != nil {
		t.Errorf("without autoscaling there is %+v", c)
	}
}

func TestDrainingServers(t *testing.T) {
	t.Parallel()
	s := healthy(withPod(server("serving", terminating)), withPod(server("silent", terminating)),
		withPod(server("done", terminating)), withPod(server("ended", terminating, waiting("", ""))))
	s.Reports["serving"], s.Reports["done"] = report(3), report(0)
	got := computeStatus(s)
	if *got.DrainingReplicas != 2 {
		t.Errorf("%d servers drain, want the serving one and the one without an answer", *got.DrainingReplicas)
	}
	if diff := cmp.Diff(&v1alpha1.SessionCounts{Active: 6, Capacity: 20}, got.Sessions); diff != "" {
		t.Errorf("sessions of terminating servers are open, but add no capacity (-want +got):\n%s", diff)
	}
}

func TestComputeStatus(t *testing.T) {
	t.Parallel()
	got := computeStatus(healthy())
	want := v1alpha1.CustomerSupportEnvStatus{
		ObservedGeneration: 3,
		Endpoint:           "ws://support.shop.svc:8000",
		Replicas:           new(int32(2)),
		ReadyReplicas:      new(int32(2)),
		UpdatedReplicas:    new(int32(2)),
		DrainingReplicas:   new(int32(0)),
		Selector: "app.kubernetes.io/component=env-server,app.kubernetes.io/name=csenv," +
			"csenv.dev/environment=support",
		Sessions: &v1alpha1.SessionCounts{Active: 3, Capacity: 20},
		Episodes: &v1alpha1.PoolEpisodes{Scored: 6, Failed: 2, Errored: 4, MeanScore: "0.7500"},
		Tasks: []v1alpha1.OfferedTask{{Name: "ticket-classify", Scenarios: 3},
			{Name: "ticket-resolve", Scenarios: 2}},
		Image:           testpool.Image,
		ScenarioDigest:  "sha256:new",
		GraderVersion:   "1",
		Judge:           "offline-v1",
		LedgerPublicKey: "public",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(want, "Conditions")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		edit func(*pass)
		want *v1alpha1.SessionCounts
	}{
		"two servers":               {func(*pass) {}, &v1alpha1.SessionCounts{Active: 3, Capacity: 20}},
		"no servers":                {empty, &v1alpha1.SessionCounts{}},
		"servers that don't answer": {func(s *pass) { s.Reports = nil }, nil},
		"a terminating server": {func(s *pass) {
			withPod(server("support-old", terminating))(s)
			s.Reports["support-old"] = report(5)
		}, &v1alpha1.SessionCounts{Active: 8, Capacity: 20}},
		"a draining server": {func(s *pass) {
			draining := report(5)
			draining.Draining = true
			s.Reports["support-b"] = draining
		}, &v1alpha1.SessionCounts{Active: 6, Capacity: 10}},
		"a server that reports nonsense": {func(s *pass) {
			s.Reports["support-b"] = score.Report{Sessions: score.Sessions{Active: -5, Capacity: -5}}
		}, &v1alpha1.SessionCounts{Active: 1, Capacity: 10}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, SumSessions(healthy(tt.edit).Snapshot)); diff != "" {
				t.Errorf("sessions (-want +got):\n%s", diff)
			}
		})
	}
}

// During a rolling update, the newest servers describe the pool.
func TestDescribeOffer(t *testing.T) {
	t.Parallel()
	older := report(0)
	older.ScenarioDigest = "sha256:old"
	long := report(0)
	long.ScenarioDigest, long.Judge = strings.Repeat("é", 100), strings.Repeat("j", 300)
	long.Tasks = make([]score.Task, 0, 40)
	for i := range 40 {
		long.Tasks = append(long.Tasks, score.Task{Name: "task-" + string(rune('A'+i))},
			score.Task{Name: strings.Repeat("x", 64)}, score.Task{})
	}
	tests := map[string]struct {
		edit      func(*pass)
		digest    string
		taskCount int
	}{
		"no server has answered": {func(s *pass) { s.Reports = nil }, "sha256:before", 0},
		"only older servers": {func(s *pass) { s.Pods = []corev1.Pod{server("support-a", outdated)} },
			"sha256:before", 0},
		"a newer server among older ones": {func(s *pass) {
			s.Pods = []corev1.Pod{server("support-a", outdated), server("support-b")}
			s.Reports["support-a"] = older
		}, "sha256:new", 2},
		"a newer server on its way out": {func(s *pass) { s.Pods = []corev1.Pod{server("support-a", terminating)} },
			"sha256:before", 0},
		"more than the API allows": {func(s *pass) { s.Reports["support-a"] = long }, strings.Repeat("é", 64),
			32},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := v1alpha1.CustomerSupportEnvStatus{ScenarioDigest: "sha256:before"}
			describeOffer(healthy(tt.edit).Decision, &got)
			if got.ScenarioDigest != tt.digest || len(got.Tasks) != tt.taskCount {
				t.Errorf("digest %q and %d tasks, want %q and %d", got.ScenarioDigest, len(got.Tasks), tt.digest,
					tt.taskCount)
			}
		})
	}
}

// A status that describes a refused spec must not have its generation as observed.
func TestObservedGenerationWaitsForTheWrites(t *testing.T) {
	t.Parallel()
	s := healthy(func(s *pass) { s.Err, s.Env.Status.ObservedGeneration = errors.New("no"), 2 })
	if got := computeStatus(s).ObservedGeneration; got != 2 {
		t.Errorf("observedGeneration = %d, want 2", got)
	}
}

func TestTransitionTimes(t *testing.T) {
	t.Parallel()
	s := healthy()
	s.Env.Status = computeStatus(s)
	s.Now = noon.Add(time.Hour)
	if diff := cmp.Diff(s.Env.Status, computeStatus(s)); diff != "" {
		t.Errorf("time alone changes the status (-before +after):\n%s", diff)
	}
	empty(&s)
	after := computeStatus(s)
	if got := meta.FindStatusCondition(after.Conditions,
		v1alpha1.ConditionAvailable).LastTransitionTime; !got.Time.Equal(s.Now) {
		t.Errorf("Available changed at %s, want %s", got, s.Now)
	}
	if got := meta.FindStatusCondition(after.Conditions,
		v1alpha1.ConditionDegraded).LastTransitionTime; !got.Time.Equal(noon) {
		t.Errorf("Degraded changed at %s, want never since %s", got, noon)
	}
}

// For any snapshot, every condition is set and valid, and the same pass gives the same status.
func TestStatusIsTotal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := drawSnapshot(r)
		status := computeStatus(s)
		for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing,
			v1alpha1.ConditionDegraded} {
			c := meta.FindStatusCondition(status.Conditions, kind)
			if c == nil || c.Reason == "" || c.Message == "" || len(c.Message) > 32768 ||
				c.ObservedGeneration != s.Env.Generation {
				r.Fatalf("%s is %+v", kind, c)
			}
		}
		if diff := cmp.Diff(status, computeStatus(s)); diff != "" {
			r.Fatalf("two different statuses of one snapshot:\n%s", diff)
		}
	})
}

func drawSnapshot(r *rapid.T) pass {
	s := healthy(wants(rapid.Int32Range(0, 5).Draw(r, "wanted")))
	if rapid.Bool().Draw(r, "no deployment") {
		empty(&s)
		s.Reports = map[string]score.Report{}
	}
	edits := []func(*corev1.Pod){
		unready, terminating, outdated,
		waiting(rapid.SampledFrom([]string{"CrashLoopBackOff", "ErrImagePull", "ContainerCreating",
			"CreateContainerError", "Surprise"}).Draw(r, "waiting"), "m"),
		ended(rapid.SampledFrom([]string{"Error", "OOMKilled"}).Draw(r, "ended"), 1,
			rapid.String().Draw(r, "last words")),
		func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{} },
	}
	for _, name := range []string{"support-c", "support-d"} {
		pod := server(name, rapid.SampledFrom(edits).Draw(r, name))
		s.Pods = append(s.Pods, pod)
		if rapid.Bool().Draw(r, name+" answers") {
			s.Reports[name] = report(rapid.Int64().Draw(r, name+" sessions"))
		}
	}
	if rapid.Bool().Draw(r, "refused") {
		s.Err = errors.New(rapid.String().Draw(r, "error"))
	}
	return s
}
