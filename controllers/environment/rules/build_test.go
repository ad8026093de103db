package rules

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/score"
)

var (
	pool          = testpool.MakePool
	unready       = testpool.SetUnready
	terminating   = testpool.SetTerminating
	waiting       = testpool.SetWaiting
	ended         = testpool.SetEnded
	scheduled     = testpool.SetScheduled
	report        = testpool.NewReport
	playing       = testpool.NewPacksReport
	bounds        = testpool.NewAutoscaling
	noon          = testpool.Noon
	rolledOut     = testpool.RolledOut
	guarded       = testpool.RequireToken
	withPacks     = testpool.WithPacks
	everyOverride = testpool.EveryOverride
)

func computeStatus(p pass) v1alpha1.CustomerSupportEnvStatus {
	return ComputeStatus(p.Decision, p.Written)
}

// evaluate returns the condition that rules give a pass.
func evaluate(stage rule.Stage, p pass) metav1.Condition {
	return newPass(p.Decision, p.Written).setCondition(stage)
}

// mark returns the changes of annotations that a pass writes.
func mark(p pass, servers map[types.UID]serverMemory) []Mark {
	return markPods(p.Snapshot, needsCosts(p.Snapshot, p.Scaling), servers)
}

// server returns a running and ready pod of the newest template.
func server(name string, edits ...func(*corev1.Pod)) corev1.Pod {
	return testpool.NewServer(children.BuildPodTemplate(children.Pool{Env: pool(), Image: testpool.Image}, ""), name, edits...)
}

func outdated(pod *corev1.Pod) { pod.Annotations = map[string]string{children.TemplateHash: "older"} }

// healthy returns a pass over a pool of two servers at rest.
func healthy(edits ...func(*pass)) pass {
	env := pool()
	s := pass{Decision: Decision{Scaling: Scaling{From: 2, To: 2}, Snapshot: snapshot.Snapshot{
		Pool: children.Pool{Env: env, Image: testpool.Image}, Now: noon,
		Live:    map[children.ID]snapshot.Object{{Kind: children.KindDeployment, Name: env.Name}: rolledOut(env)},
		Pods:    []corev1.Pod{server("support-a"), server("support-b")},
		Reports: map[string]score.Report{"support-a": report(1), "support-b": report(2)},
	}}}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func withDeployment(edit func(*appsv1.Deployment)) func(*pass) {
	return func(s *pass) {
		s.Live[children.ID{Kind: children.KindDeployment, Name: s.Env.Name}] = rolledOut(s.Env, edit)
	}
}

func withPod(pod corev1.Pod) func(*pass) {
	return func(s *pass) { s.Pods = append(s.Pods, pod) }
}
