package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/score"
)

// finishedRollout returns a Deployment whose last rolling update, for a digest, ended that long
// ago.
func finishedRollout(env *v1alpha1.CustomerSupportEnv, scenarios string, ago time.Duration) *appsv1.Deployment {
	return rolledOut(env, func(d *appsv1.Deployment) {
		if scenarios != "" {
			d.Spec.Template.Annotations = map[string]string{children.ScenariosAnnotation: scenarios}
		}
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: newRolloutReason,
			LastUpdateTime: metav1.NewTime(noon.Add(-ago)),
		}}
	})
}

// packed returns the snapshot of a pool with packs, with these reports, an hour after its last
// rolling update.
func packed(annotated string, reports ...score.Report) pass {
	env := pool(withPacks)
	s := pass{Decision: Decision{Scaling: Scaling{From: 2, To: 2}, Snapshot: snapshot.Snapshot{
		Pool: children.Pool{Env: env, Image: testpool.Image}, Now: noon, Reports: map[string]score.Report{},
		Live: map[children.ID]snapshot.Object{{Kind: children.KindDeployment, Name: env.Name}: finishedRollout(env,
			annotated, time.Hour)},
	}}}
	s.Scenarios = s.AnnotatedScenarios()
	for i, report := range reports {
		pod := server(fmt.Sprintf("support-%d", i))
		s.Pods = append(s.Pods, newest(s, pod))
		s.Reports[pod.Name] = report
	}
	return s
}

func TestNextScenarios(t *testing.T) {
	t.Parallel()
	same, changed := playing("a", "a", ""), playing("a", "b", "")
	with := func(s pass, edit func(*pass)) pass {
		edit(&s)
		return s
	}
	tests := map[string]struct {
		s    pass
		want string
	}{
		"nothing has changed":             {packed("", same, same), ""},
		"nothing has changed since":       {packed("a", same, same), "a"},
		"a change":                        {packed("", changed, changed), "b"},
		"a change back":                   {packed("b", playing("b", "a", "")), "a"},
		"a change that not all have seen": {packed("", changed, same), ""},
		"two changes at once":             {packed("", changed, playing("a", "c", "")), ""},
		"a fault": {packed("", playing("a", "", "wrong"), playing("a", "", "wrong")),
			""},
		"a fault of one":                         {packed("", changed, playing("a", "", "wrong")), ""},
		"a server that started after the change": {packed("", changed, playing("b", "b", "")), "b"},
		"a digest that was annotated already":    {packed("b", changed, changed), "b"},
		"a server without packs in its report":   {packed("", changed, report(0)), ""},
		"a server without a report": {
			with(packed("", changed, changed), func(s *pass) { delete(s.Reports, "support-1") }), "b"},
		"no server has a report": {with(packed("", changed), func(s *pass) { s.Reports = nil }),
			""},
		"no digest": {packed("", playing("a", "", "")), ""},
		"a draining server has an older digest": {with(packed("", changed, same), func(s *pass) {
			s.Pods[1].DeletionTimestamp = new(metav1.NewTime(noon))
		}), "b"},
		"an older server has another fault": {with(packed("", changed, playing("a", "", "wrong")),
			func(s *pass) { outdated(&s.Pods[1]) }), "b"},
		"the packs were removed from the spec": {with(packed("a", changed), func(s *pass) {
			s.Env.Spec.Scenarios.Packs,
				s.Scenarios = nil, ""
		}), ""},
		"the last rollout ended just now": {with(packed("", changed), func(s *pass) {
			s.Live[children.ID{Kind: children.KindDeployment, Name: "support"}] = finishedRollout(s.Env, "", replacePause-1)
		}), ""},
		"a rolling update is in progress": {with(packed("", changed), func(s *pass) {
			s.Deployment().Status.UpdatedReplicas = 1
		}), ""},
		"a surge pod is terminating": {with(packed("", changed), func(s *pass) {
			s.Deployment().Status.Replicas = 3
		}), ""},
		"a rollout is about to begin": {with(packed("", changed), func(s *pass) {
			s.Deployment().Generation = 2
		}), ""},
		"a rollout got stuck": {with(packed("", changed), func(s *pass) {
			s.Deployment().Status.Conditions[0].Reason = "ProgressDeadlineExceeded"
		}), ""},
		"the state of rolling updates is unknown": {with(packed("", changed), func(s *pass) {
			s.Deployment().Status.Conditions = nil
		}), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := chooseScenarios(tt.s.Snapshot); got != tt.want {
				t.Errorf("annotated with %q, want %q", got, tt.want)
			}
		})
	}
}

// For all reports, each new digest causes one rolling update, and none begins within replacePause
// after the last one.
func TestRolloutsAreBounded(t *testing.T) {
	t.Parallel()
	digest := rapid.SampledFrom([]string{"a", "b", "c", ""})
	rapid.Check(t, func(r *rapid.T) {
		annotated, ended, rollouts := "", noon, 0
		looks := rapid.IntRange(1, 60).Draw(r, "looks")
		for i := range looks {
			now := noon.Add(time.Duration(i) * 15 * time.Second)
			s := packed(annotated, playing(digest.Draw(r, "loaded"), digest.Draw(r, "mounted"),
				rapid.SampledFrom([]string{"", "", "wrong"}).Draw(r, "fault")))
			s.Now, s.Live[children.ID{Kind: children.KindDeployment, Name: "support"}] = now, finishedRollout(s.Env, annotated, noon.Sub(ended))
			if next := chooseScenarios(s.Snapshot); next != annotated {
				if now.Sub(ended) < replacePause {
					r.Fatalf("a rolling update %v after the last one", now.Sub(ended))
				}
				annotated, ended, rollouts = next, now, rollouts+1
			}
		}
		if most := looks/8 + 1; rollouts > most {
			r.Fatalf("%d rolling updates in %d passes, want at most %d", rollouts, looks, most)
		}
	})
}

// The annotation, and nothing else, causes the replacement of the servers.
func TestScenariosChangeTheTemplate(t *testing.T) {
	t.Parallel()
	s := packed("")
	before := children.BuildPodTemplate(s.Pool, s.Scenarios)
	s.Scenarios = "b"
	after := children.BuildPodTemplate(s.Pool, s.Scenarios)
	if after.Annotations[children.ScenariosAnnotation] != "b" ||
		after.Annotations[children.TemplateHash] == before.Annotations[children.TemplateHash] {
		t.Errorf("annotations %v, before %v", after.Annotations, before.Annotations)
	}
}

func TestInvalidPack(t *testing.T) {
	t.Parallel()
	fault := "/etc/csenv/packs/pack-1/T9.yaml:31: unknown key \"prioritiy\"\n/etc/csenv/packs/pack-0/T1.yaml:2: no"
	c := evaluate(Degraded, packed("", playing("a", "a", ""), playing("a", "", fault)))
	if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonInvalidPack {
		t.Errorf("degraded: %s, %s", c.Status, c.Reason)
	}
	want := `Correct the pack: Secret held-out/T9.yaml:31: unknown key "prioritiy" ConfigMap acme/T1.yaml:2: no`
	if !strings.Contains(c.Message, want) {
		t.Errorf("message %q lacks %q", c.Message, want)
	}
	if c := evaluate(Degraded, packed("", playing("a", "b", ""))); c.Status != metav1.ConditionFalse {
		t.Errorf("a change alone: %s", c.Message)
	}
}

// The error of a server that doesn't start refers to the pool's fields, not to paths in the
// server's files.
func TestErrorsNameMountedObjects(t *testing.T) {
	t.Parallel()
	broken := waiting("CrashLoopBackOff", "back-off")
	tests := map[string]struct{ says, want string }{
		"a pack": {
			"error: loading the scenarios of --scenarios and --pack:\n/etc/csenv/packs/pack-0/T1.yaml:3: wrong",
			"--pack: ConfigMap acme/T1.yaml:3: wrong"},
		"no pack": {"error: /etc/csenv/packs/pack-1: no scenario files: a pack has the folders",
			"Secret held-out doesn't exist in namespace shop, or it has no scenario files. Create it from the pack's " +
				"folder: `kubectl create secret generic held-out -n shop --from-file=FOLDER`"},
		"no pack in a ConfigMap": {"error: /etc/csenv/packs/pack-0: no scenario files",
			"`kubectl create configmap acme -n shop --from-file=FOLDER`"},
		"no token": {"error: reading --token-file: open /etc/csenv/token/token: no such file",
			`without a token under key "tokens" of Secret clients. Add one to the Secret that ` +
				"spec.access.tokenSecretRef names, or create it: `kubectl create secret generic clients -n shop --from-literal=tokens=VALUE`: " +
				`error: reading --token-file: open key "tokens" of Secret clients: no such file`},
		"no line": {"error: --token-file /etc/csenv/token/token holds no token",
			`without a token under key "tokens" of Secret clients`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := packed("")
			guarded(s.Env)
			s.Pods = []corev1.Pod{server("support-a", broken, ended("Error", 1, tt.says))}
			if c := evaluate(Degraded, s); c.Reason != v1alpha1.ReasonCrashLoop || !strings.Contains(c.Message, tt.want) {
				t.Errorf("%s: %q lacks %q", c.Reason, c.Message, tt.want)
			}
		})
	}
}
