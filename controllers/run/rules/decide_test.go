package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// scenariosOf returns one scenario for each of n categories.
func scenariosOf(n int) []score.Scenario {
	scenarios := make([]score.Scenario, n)
	for i := range scenarios {
		scenarios[i] = score.Scenario{ID: fmt.Sprintf("C%02d", i), Category: fmt.Sprintf("category-%02d", i),
			Difficulty: "easy", Language: "en"}
	}
	return scenarios
}

func TestBegin(t *testing.T) {
	cases := map[string]struct {
		change  func(*snapshot.Snapshot)
		states  string
		message string // of Complete
		begins  bool
	}{
		"begins": {
			change:  func(*snapshot.Snapshot) {},
			states:  runtest.EnvReady + "Complete=False/Running" + runtest.NotFailed,
			message: "0 of 4 shards",
			begins:  true,
		},
		"no pool": {
			change: func(s *snapshot.Snapshot) { s.Env, s.Report = nil, nil },
			states: runtest.EnvMissing + "Complete=False/WaitingForEnvironment" +
				runtest.NotFailed,
			message: "no CustomerSupportEnv support",
		},
		"a pool without status": {
			change:  func(s *snapshot.Snapshot) { s.Env.Status, s.Report = v1alpha1.CustomerSupportEnvStatus{}, nil },
			states:  "EnvironmentReady=False/EnvironmentNotAvailable Complete=False/WaitingForEnvironment" + runtest.NotFailed,
			message: "no status yet",
		},
		"a pool that isn't available": {
			change: func(s *snapshot.Snapshot) {
				available := &s.Env.Status.Conditions[0]
				available.Status, available.Message = metav1.ConditionFalse, "None of 2 servers accepts sessions."
				s.Report = nil
			},
			states:  "EnvironmentReady=False/EnvironmentNotAvailable Complete=False/WaitingForEnvironment" + runtest.NotFailed,
			message: "None of 2 servers",
		},
		"a pool whose judge can't grade": {
			change: func(s *snapshot.Snapshot) {
				s.Env.Status.Conditions = []metav1.Condition{
					{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse,
						Reason: v1alpha1.ReasonJudgeNotReady},
					{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue,
						Message: "401 Unauthorized: bad key"},
				}
				s.Report = nil
			},
			states:  "EnvironmentReady=False/JudgeNotReady Complete=False/JudgeNotReady" + runtest.NotFailed,
			message: "401 Unauthorized: bad key",
		},
		"a pool without a key": {
			change:  func(s *snapshot.Snapshot) { s.Env.Status.LedgerPublicKey, s.Report = "", nil },
			states:  "EnvironmentReady=False/EnvironmentNotAvailable Complete=False/WaitingForEnvironment" + runtest.NotFailed,
			message: "ledger key",
		},
		"a pool that can't be read": {
			change:  func(s *snapshot.Snapshot) { s.Report, s.ReportErr = nil, runtest.ErrCrash },
			states:  "EnvironmentReady=False/EnvironmentUnreachable Complete=False/WaitingForEnvironment" + runtest.NotFailed,
			message: "the operator crashed",
		},
		"a name that is taken": {
			change:  func(s *snapshot.Snapshot) { s.Taken = []string{"Job baseline"} },
			states:  runtest.EnvReady + "Complete=False/NameTaken" + runtest.NotFailed,
			message: "Job baseline belongs to something else",
		},
		"a task that isn't offered": {
			change:  func(s *snapshot.Snapshot) { s.Run.Spec.Tasks[0].Name = "refund" },
			states:  runtest.EnvReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: `no task "refund", use ticket-classify, ticket-resolve`,
		},
		"a scenario that isn't offered": {
			change: func(s *snapshot.Snapshot) {
				s.Run.Spec.Tasks[0].Scenarios = &v1alpha1.ScenarioSelection{IDs: []string{"B01", "T01", "X99"}}
			},
			states:  runtest.EnvReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "ticket-classify has no scenario T01, X99, use B01, B02, S01",
		},
		"a category that isn't offered": {
			change: func(s *snapshot.Snapshot) {
				s.Run.Spec.Tasks[1].Scenarios = &v1alpha1.ScenarioSelection{Categories: []string{"billig"}}
			},
			states:  runtest.EnvReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "no category billig, use billing, shipping, technical",
		},
		"more categories than the status lists": {
			change:  func(s *snapshot.Snapshot) { s.Report.Tasks[1].Scenarios = scenariosOf(evaluation.MaxCategories + 1) },
			states:  runtest.EnvReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "scenarios of 35 categories, and a run has figures for 32 at most",
		},
		"as many categories as the status lists": {
			change: func(s *snapshot.Snapshot) {
				s.Run.Spec.Tasks = s.Run.Spec.Tasks[1:]
				s.Report.Tasks[1].Scenarios = scenariosOf(evaluation.MaxCategories)
			},
			states:  runtest.EnvReady + "Complete=False/Running" + runtest.NotFailed,
			message: "0 of 4 shards",
			begins:  true,
		},
		"two lists that nothing meets": {
			change: func(s *snapshot.Snapshot) {
				s.Run.Spec.Tasks[1].Scenarios = &v1alpha1.ScenarioSelection{IDs: []string{"B01"},
					Categories: []string{"shipping"}}
			},
			states:  runtest.EnvReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "no scenario that meets all of ids B01 and categories shipping; with the other lists ids can be S01",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := snap()
			tc.change(&s)
			d := DecideRun(s)
			if got := runtest.FormatConditions(d.Status.Conditions); got != tc.states {
				t.Errorf("conditions %s, want %s", got, tc.states)
			}
			if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionComplete); c == nil ||
				!strings.Contains(c.Message, tc.message) {
				t.Errorf("Complete is %+v, want a message that contains %q", c, tc.message)
			}
			begins := d.CreateJob != nil && d.CreateJob.Inputs != nil && d.Status.Provenance != nil &&
				d.Status.StartTime != nil
			stays := d.CreatePlan == nil && d.CreateJob == nil && d.Status.Provenance == nil &&
				d.Status.StartTime == nil
			if begins != tc.begins || stays == tc.begins {
				t.Errorf("job %v, provenance %v: want begun = %v", d.CreateJob,
					d.Status.Provenance, tc.begins)
			}
			waits := d.Again > 0
			if terminal := evaluation.HasEnded(d.Status.Conditions); waits == (terminal || tc.begins) {
				t.Errorf("requeued after %v", d.Again)
			}
			if evaluation.HasEnded(d.Status.Conditions) != (d.Status.CompletionTime != nil) {
				t.Error("completionTime must be set if and only if the run has ended")
			}
		})
	}
}

func TestBeginRecordsProvenance(t *testing.T) {
	d := DecideRun(snap())
	bare, err := evaluation.NewProvenance(runtest.NewRun(), evaluation.Offer{})
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.Provenance{
		Image: "csenv:test", OperatorVersion: "v1.2.3", ScenarioDigest: runtest.DigestA, GraderVersion: "1",
		Judge:       "offline-v1",
		LedgerKey:   runtest.PublicText(runtest.PoolKey()),
		AgentDigest: bare.AgentDigest, Seed: ptr.To[int64](42), SpecHash: d.Status.Provenance.SpecHash,
	}
	if diff := cmp.Diff(want, d.Status.Provenance); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&v1alpha1.RunEpisodes{Total: 14}, d.Status.Episodes); diff != "" {
		t.Error(diff)
	}
	if d.Status.Progress != "0/14" {
		t.Errorf("progress %q, want 0/14", d.Status.Progress)
	}
	faster, other := snap(), snap()
	faster.Run.Spec.Parallelism = ptr.To[int32](1)
	other.Run.Spec.Seed = ptr.To[int64](43)
	if got := DecideRun(faster).Status.Provenance.SpecHash; got != d.Status.Provenance.SpecHash {
		t.Error("the spec's hash depends on parallelism")
	}
	if got := DecideRun(other).Status.Provenance.SpecHash; got == d.Status.Provenance.SpecHash {
		t.Error("the spec's hash doesn't depend on the seed")
	}
}

func jobWith(s *snapshot.Snapshot, kind batchv1.JobConditionType, message string) {
	s.Job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Message: message,
		LastTransitionTime: metav1.NewTime(runtest.StartTime())}}
}

func addPods(s *snapshot.Snapshot, pods ...*corev1.Pod) {
	for _, pod := range pods {
		s.Pods = append(s.Pods, *pod)
		switch {
		case pod.Status.Phase == corev1.PodFailed:
			s.Failed = append(s.Failed, *pod)
		case runner.HasSucceeded(pod):
			s.Succeeded = append(s.Succeeded, *pod)
		}
	}
}

// A run repeats the problems of a pool of its own namespace. It must not reveal the packs and
// images of other namespaces' pools.
func TestProblemsOfThePoolAreReported(t *testing.T) {
	for _, namespace := range []string{snap().Run.Namespace, "shared"} {
		s := snap()
		s.Env.Namespace, s.Run.Spec.EnvironmentRef.Namespace = namespace, namespace
		s.Env.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse,
				Message: "None of 2 servers accepts sessions."},
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Message: "The image can't be pulled."},
		}
		quoted := namespace == s.Run.Namespace
		if got := describePool(s).Message; strings.Contains(got, "can't be pulled") != quoted ||
			!strings.Contains(got, "None of 2 servers") {
			t.Errorf("of a pool in namespace %s: %q", namespace, got)
		}
	}
}

func changePlan(t *testing.T, s *snapshot.Snapshot, plan score.Plan) {
	t.Helper()
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	s.PlanMap.Data[runner.PlanKey] = string(data)
}

func TestChangedPlanIsReplacedInTwoSteps(t *testing.T) {
	s, plan := begun(t)
	changed := plan
	changed.Seed++
	changePlan(t, &s, changed)
	if d := DecideRun(s); !d.RemovePlan || d.CreatePlan != nil {
		t.Errorf("a changed plan: removed %v, created %v", d.RemovePlan, d.CreatePlan != nil)
	}
	report := runtest.NewReport()
	s.PlanMap, s.Report = nil, &report
	d := DecideRun(s)
	if d.RemovePlan || d.CreatePlan == nil {
		t.Fatalf("a deleted plan: removed %v, created %v", d.RemovePlan, d.CreatePlan != nil)
	}
	if diff := cmp.Diff(plan, runtest.ParsePlan(t, d.CreatePlan)); diff != "" {
		t.Errorf("made again: %s", diff)
	}
}

// The runners refuse another agent in the ConfigMap, and the operator replaces it.
func TestChangedAgentIsReplaced(t *testing.T) {
	s, _ := begun(t)
	if !slices.Contains(s.Job.Spec.Template.Spec.Containers[0].Args, "--inputs="+runner.DigestInputs(s.PlanMap.Data)) {
		t.Fatalf("the Job doesn't name its inputs: %q", s.Job.Spec.Template.Spec.Containers[0].Args)
	}
	if d := DecideRun(s); d.RemovePlan {
		t.Error("a ConfigMap without a change is removed")
	}
	s.PlanMap.Data[runner.AgentKey] = `{"type":"Builtin","builtin":{"policy":"Oracle"}}`
	if d := DecideRun(s); !d.RemovePlan || d.CreatePlan != nil {
		t.Errorf("another agent: removed %v, created %v", d.RemovePlan, d.CreatePlan != nil)
	}
	// An earlier version may have written the same agent differently.
	older := jobOf(s, runner.JobSpec{JobAttempt: 1, Shards: runtest.AllShards(), Digest: runner.DigestInputs(s.PlanMap.Data)})
	s.Job = older
	if d := DecideRun(s); d.RemovePlan {
		t.Error("the ConfigMap for which the Job was created is removed")
	}
}

func TestRecoveredPlanKeepsItsShards(t *testing.T) {
	s, plan := begun(t)
	report := runtest.NewReport()
	s.PlanMap, s.Report = nil, &report
	s.Run.Spec.Parallelism = ptr.To[int32](1)
	if d := DecideRun(s); d.CreatePlan == nil || runtest.ParsePlan(t, d.CreatePlan).Shards != plan.Shards {
		t.Errorf("made again: %+v", d.CreatePlan)
	}
}

func TestEndedRunsStay(t *testing.T) {
	for name, kind := range map[string]string{"completed": v1alpha1.ConditionComplete,
		"failed": v1alpha1.ConditionFailed} {
		t.Run(name, func(t *testing.T) {
			s, plan := begun(t)
			meta.SetStatusCondition(&s.Run.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue,
				Reason: "Test"})
			s.Run.Generation = 2
			addPods(&s, runtest.NewSucceededPod(t, s.Run, plan, 0), runtest.RunnerPod(s.Run, 1))
			d := DecideRun(s)
			if d.Status.Shards.CompletedIndexes != "" || d.Status.Progress != "0/14" {
				t.Error("a run that has ended counts more shards")
			}
			if got := runtest.PodNames(d.Release); got != "baseline-0 baseline-1" {
				t.Errorf("releases %q, want both pods", got)
			}
			if want := map[string]string{v1alpha1.ConditionFailed: "suspend",
				v1alpha1.ConditionComplete: "delete"}[kind]; jobDecision(d) != want {
				t.Errorf("decides to %q the Job, want %q", jobDecision(d), want)
			}
			for _, c := range d.Status.Conditions {
				if c.ObservedGeneration != 2 {
					t.Errorf("condition %s is of generation %d", c.Type, c.ObservedGeneration)
				}
			}
			jobWith(&s, batchv1.JobComplete, "")
			s.Run.Spec.Retain = v1alpha1.RetainAlways
			if got := jobDecision(DecideRun(s)); got != "" {
				t.Errorf("decides to %q a Job that has ended, with its pods' logs", got)
			}
		})
	}
}
