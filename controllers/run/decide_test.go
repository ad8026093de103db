package run

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
		change  func(*snapshot)
		states  string
		message string // of Complete
		begins  bool
	}{
		"begins": {
			change:  func(*snapshot) {},
			states:  envReady + "Complete=False/Running" + notFailed,
			message: "0 of 4 shards",
			begins:  true,
		},
		"no pool": {
			change: func(s *snapshot) { s.env, s.report = nil, nil },
			states: envMissing + "Complete=False/WaitingForEnvironment" +
				notFailed,
			message: "no CustomerSupportEnv support",
		},
		"a pool without status": {
			change:  func(s *snapshot) { s.env.Status, s.report = v1alpha1.CustomerSupportEnvStatus{}, nil },
			states:  "EnvironmentReady=False/EnvironmentNotAvailable Complete=False/WaitingForEnvironment" + notFailed,
			message: "no status yet",
		},
		"a pool that isn't available": {
			change: func(s *snapshot) {
				available := &s.env.Status.Conditions[0]
				available.Status, available.Message = metav1.ConditionFalse, "None of 2 servers accepts sessions."
				s.report = nil
			},
			states:  "EnvironmentReady=False/EnvironmentNotAvailable Complete=False/WaitingForEnvironment" + notFailed,
			message: "None of 2 servers",
		},
		"a pool whose judge can't grade": {
			change: func(s *snapshot) {
				s.env.Status.Conditions = []metav1.Condition{
					{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse,
						Reason: v1alpha1.ReasonJudgeNotReady},
					{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue,
						Message: "401 Unauthorized: bad key"},
				}
				s.report = nil
			},
			states:  "EnvironmentReady=False/JudgeNotReady Complete=False/JudgeNotReady" + notFailed,
			message: "401 Unauthorized: bad key",
		},
		"a pool without a key": {
			change:  func(s *snapshot) { s.env.Status.LedgerPublicKey, s.report = "", nil },
			states:  "EnvironmentReady=False/EnvironmentNotAvailable Complete=False/WaitingForEnvironment" + notFailed,
			message: "ledger key",
		},
		"a pool that can't be read": {
			change:  func(s *snapshot) { s.report, s.reportErr = nil, errCrash },
			states:  "EnvironmentReady=False/EnvironmentUnreachable Complete=False/WaitingForEnvironment" + notFailed,
			message: "the operator crashed",
		},
		"a name that is taken": {
			change:  func(s *snapshot) { s.taken = []string{"Job baseline"} },
			states:  envReady + "Complete=False/NameTaken" + notFailed,
			message: "Job baseline belongs to something else",
		},
		"a task that isn't offered": {
			change:  func(s *snapshot) { s.run.Spec.Tasks[0].Name = "refund" },
			states:  envReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: `no task "refund", use ticket-classify, ticket-resolve`,
		},
		"a scenario that isn't offered": {
			change: func(s *snapshot) {
				s.run.Spec.Tasks[0].Scenarios = &v1alpha1.ScenarioSelection{IDs: []string{"B01", "T01", "X99"}}
			},
			states:  envReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "ticket-classify has no scenario T01, X99, use B01, B02, S01",
		},
		"a category that isn't offered": {
			change: func(s *snapshot) {
				s.run.Spec.Tasks[1].Scenarios = &v1alpha1.ScenarioSelection{Categories: []string{"billig"}}
			},
			states:  envReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "no category billig, use billing, shipping, technical",
		},
		"more categories than the status lists": {
			change:  func(s *snapshot) { s.report.Tasks[1].Scenarios = scenariosOf(evaluation.MaxCategories + 1) },
			states:  envReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "scenarios of 35 categories, and a run has figures for 32 at most",
		},
		"as many categories as the status lists": {
			change: func(s *snapshot) {
				s.run.Spec.Tasks = s.run.Spec.Tasks[1:]
				s.report.Tasks[1].Scenarios = scenariosOf(evaluation.MaxCategories)
			},
			states:  envReady + "Complete=False/Running" + notFailed,
			message: "0 of 4 shards",
			begins:  true,
		},
		"two lists that nothing meets": {
			change: func(s *snapshot) {
				s.run.Spec.Tasks[1].Scenarios = &v1alpha1.ScenarioSelection{IDs: []string{"B01"},
					Categories: []string{"shipping"}}
			},
			states:  envReady + "Complete=False/InvalidPlan Failed=True/InvalidPlan",
			message: "no scenario that meets all of ids B01 and categories shipping; with the other lists ids can be S01",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := snap()
			tc.change(&s)
			d := decide(s)
			if got := states(d.status.Conditions); got != tc.states {
				t.Errorf("conditions %s, want %s", got, tc.states)
			}
			if c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionComplete); c == nil ||
				!strings.Contains(c.Message, tc.message) {
				t.Errorf("Complete is %+v, want a message that contains %q", c, tc.message)
			}
			begins := d.createPlan != nil && d.createJob != nil && d.status.Provenance != nil &&
				d.status.StartTime != nil
			stays := d.createPlan == nil && d.createJob == nil && d.status.Provenance == nil &&
				d.status.StartTime == nil
			if begins != tc.begins || stays == tc.begins {
				t.Errorf("plan %v, job %v, provenance %v: want begun = %v", d.createPlan, d.createJob,
					d.status.Provenance, tc.begins)
			}
			waits := d.again > 0
			if terminal := evaluation.Ended(d.status.Conditions); waits == (terminal || tc.begins) {
				t.Errorf("requeued after %v", d.again)
			}
			if evaluation.Ended(d.status.Conditions) != (d.status.CompletionTime != nil) {
				t.Error("completionTime must be set if and only if the run has ended")
			}
		})
	}
}

func TestBeginRecordsProvenance(t *testing.T) {
	d := decide(snap())
	bare, err := evaluation.NewProvenance(newTestRun(), evaluation.Offer{})
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.Provenance{
		Image: "csenv:test", OperatorVersion: "v1.2.3", ScenarioDigest: digestA, GraderVersion: "1",
		Judge:       "offline-v1",
		AgentDigest: bare.AgentDigest, Seed: ptr.To[int64](42), SpecHash: d.status.Provenance.SpecHash,
	}
	if diff := cmp.Diff(want, d.status.Provenance); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&v1alpha1.RunEpisodes{Total: 14}, d.status.Episodes); diff != "" {
		t.Error(diff)
	}
	if d.status.Progress != "0/14" {
		t.Errorf("progress %q, want 0/14", d.status.Progress)
	}
	faster, other := snap(), snap()
	faster.run.Spec.Parallelism = ptr.To[int32](1)
	other.run.Spec.Seed = ptr.To[int64](43)
	if got := decide(faster).status.Provenance.SpecHash; got != d.status.Provenance.SpecHash {
		t.Error("the spec's hash depends on parallelism")
	}
	if got := decide(other).status.Provenance.SpecHash; got == d.status.Provenance.SpecHash {
		t.Error("the spec's hash doesn't depend on the seed")
	}
}

func jobWith(s *snapshot, kind batchv1.JobConditionType, message string) {
	s.job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Message: message,
		LastTransitionTime: metav1.NewTime(start())}}
}

func addPods(s *snapshot, pods ...*corev1.Pod) {
	for _, pod := range pods {
		s.pods = append(s.pods, *pod)
		switch {
		case pod.Status.Phase == corev1.PodFailed:
			s.failed = append(s.failed, *pod)
		case runnerSucceeded(pod):
			s.succeeded = append(s.succeeded, *pod)
		}
	}
}

// A run repeats the problems of a pool of its own namespace. It must not reveal the packs and
// images of other namespaces' pools.
func TestProblemsOfThePoolAreReported(t *testing.T) {
	for _, namespace := range []string{snap().run.Namespace, "shared"} {
		s := snap()
		s.env.Namespace, s.run.Spec.EnvironmentRef.Namespace = namespace, namespace
		s.env.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse,
				Message: "None of 2 servers accepts sessions."},
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Message: "The image can't be pulled."},
		}
		quoted := namespace == s.run.Namespace
		if got := environmentCondition(s).Message; strings.Contains(got, "can't be pulled") != quoted ||
			!strings.Contains(got, "None of 2 servers") {
			t.Errorf("of a pool in namespace %s: %q", namespace, got)
		}
	}
}

func changePlan(t *testing.T, s *snapshot, plan score.Plan) {
	t.Helper()
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	s.planMap.Data[planKey] = string(data)
}

func TestChangedPlanIsReplacedInTwoSteps(t *testing.T) {
	s, plan := begun(t)
	changed := plan
	changed.Seed++
	changePlan(t, &s, changed)
	if d := decide(s); !d.removePlan || d.createPlan != nil {
		t.Errorf("a changed plan: removed %v, created %v", d.removePlan, d.createPlan != nil)
	}
	report := offer()
	s.planMap, s.report = nil, &report
	d := decide(s)
	if d.removePlan || d.createPlan == nil {
		t.Fatalf("a deleted plan: removed %v, created %v", d.removePlan, d.createPlan != nil)
	}
	if diff := cmp.Diff(plan, *d.createPlan); diff != "" {
		t.Errorf("made again: %s", diff)
	}
}

// The runners refuse another agent in the ConfigMap, and the operator replaces it.
func TestChangedAgentIsReplaced(t *testing.T) {
	s, _ := begun(t)
	if !slices.Contains(s.job.Spec.Template.Spec.Containers[0].Args, "--inputs="+inputsOf(s.planMap)) {
		t.Fatalf("the Job doesn't name its inputs: %q", s.job.Spec.Template.Spec.Containers[0].Args)
	}
	if d := decide(s); d.removePlan {
		t.Error("a ConfigMap without a change is removed")
	}
	s.planMap.Data[agentKey] = `{"type":"Builtin","builtin":{"policy":"Oracle"}}`
	if d := decide(s); !d.removePlan || d.createPlan != nil {
		t.Errorf("another agent: removed %v, created %v", d.removePlan, d.createPlan != nil)
	}
	// An earlier version may have written the same agent differently.
	older := jobOf(s, jobSpec{attempt: 1, shards: allShards(), inputs: inputsOf(s.planMap)})
	s.job = older
	if d := decide(s); d.removePlan {
		t.Error("the ConfigMap for which the Job was created is removed")
	}
}

func TestRecoveredPlanKeepsItsShards(t *testing.T) {
	s, plan := begun(t)
	report := offer()
	s.planMap, s.report = nil, &report
	s.run.Spec.Parallelism = ptr.To[int32](1)
	if d := decide(s); d.createPlan == nil || d.createPlan.Shards != plan.Shards {
		t.Errorf("made again: %+v", d.createPlan)
	}
}

func TestEndedRunsStay(t *testing.T) {
	for name, kind := range map[string]string{"completed": v1alpha1.ConditionComplete,
		"failed": v1alpha1.ConditionFailed} {
		t.Run(name, func(t *testing.T) {
			s, plan := begun(t)
			meta.SetStatusCondition(&s.run.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue,
				Reason: "Test"})
			s.run.Generation = 2
			addPods(&s, succeeded(t, s.run, plan, 0), runnerPodOf(s.run, 1))
			d := decide(s)
			if d.status.Shards.CompletedIndexes != "" || d.status.Progress != "0/14" {
				t.Error("a run that has ended counts more shards")
			}
			if got := podNames(d.release); got != "baseline-0 baseline-1" {
				t.Errorf("releases %q, want both pods", got)
			}
			if want := map[string]string{v1alpha1.ConditionFailed: "suspend",
				v1alpha1.ConditionComplete: "delete"}[kind]; jobDecision(d) != want {
				t.Errorf("decides to %q the Job, want %q", jobDecision(d), want)
			}
			for _, c := range d.status.Conditions {
				if c.ObservedGeneration != 2 {
					t.Errorf("condition %s is of generation %d", c.Type, c.ObservedGeneration)
				}
			}
			jobWith(&s, batchv1.JobComplete, "")
			s.run.Spec.Retain = v1alpha1.RetainAlways
			if got := jobDecision(decide(s)); got != "" {
				t.Errorf("decides to %q a Job that has ended, with its pods' logs", got)
			}
		})
	}
}
