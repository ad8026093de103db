package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	all := []string{"Service support", "Service support-pods", "PodDisruptionBudget support", "NetworkPolicy support",
		"Deployment support"}
	deploymentID, policyID := children.ID{Kind: children.KindDeployment, Name: "support"}, children.ID{Kind: children.KindNetworkPolicy, Name: "support"}
	tests := map[string]struct {
		change func(*pass)
		want   []string
	}{
		"nothing exists":    {func(s *pass) { s.Live = nil }, all},
		"everything exists": {func(*pass) {}, nil},
		"a name is taken": {func(s *pass) {
			s.Live, s.Taken = nil,
				[]children.ID{{Kind: children.KindService, Name: "support"}}
		}, all[1:]},
		"an earlier pool's old object": {func(s *pass) { s.Live, s.Leaving = nil, []children.ID{deploymentID} },
			all[:4]},
		"defaults and fields of others are no difference": {func(s *pass) {
			d := s.Live[deploymentID].(*appsv1.Deployment)
			d.Spec.RevisionHistoryLimit = new(int32(10))
			d.Labels["team"] = "support"
			d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "sidecar"}},
				d.Spec.Template.Spec.Containers...)
		}, nil},
		"the kind of a typed object is no difference": {func(s *pass) {
			s.Live[deploymentID].(*appsv1.Deployment).Kind = ""
		}, nil},
		"replicas scaled manually": {func(s *pass) {
			s.Live[deploymentID].(*appsv1.Deployment).Spec.Replicas = new(
				int32(9))
		}, all[4:]},
		"an argument added manually": {func(s *pass) { addArgument(s.Live[deploymentID].(*appsv1.Deployment)) },
			all[4:]},
		"a label removed manually": {func(s *pass) { s.Live[children.ID{Kind: children.KindService, Name: "support"}].SetLabels(nil) },
			all[:1]},
		"the owner removed manually": {func(s *pass) {
			s.Live[children.ID{Kind: children.KindBudget, Name: "support"}].SetOwnerReferences(
				nil)
		}, all[2:3]},
		"the budget loosened manually": {func(s *pass) {
			s.Live[children.ID{Kind: children.KindBudget, Name: "support"}].(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable = nil
		}, all[2:3]},
		"the spec scales": {func(s *pass) { s.Scaling.To = 0 }, all[4:]},
		"the spec's reward mode changes": {func(s *pass) { s.Env.Spec.RewardMode = v1alpha1.TerminalReward },
			all[4:]},
		"the image changes": {func(s *pass) { s.Image = "csenv:next" }, all[4:]},
		"a new key pair":    {func(s *pass) { s.Env.Status.LedgerPublicKey = "other" }, all[4:]},
		"a rule added to the network policy manually": {func(s *pass) {
			policy := s.Live[policyID].(*networkingv1.NetworkPolicy)
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		}, all[3:4]},
		"a rule of the network policy widened manually": {func(s *pass) {
			rule := &s.Live[policyID].(*networkingv1.NetworkPolicy).Spec.Ingress[0]
			rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}})
		}, all[3:4]},
		"the network policy is no longer wanted": {
			func(s *pass) { s.Env.Spec.NetworkPolicy = v1alpha1.UnmanagedNetworkPolicy },
			[]string{"NetworkPolicy support, deleted"}},
		"a network policy that was never wanted": {func(s *pass) {
			s.Env.Spec.NetworkPolicy = v1alpha1.UnmanagedNetworkPolicy
			delete(s.Live, policyID)
		}, nil},
		"an unmanaged network policy of another owner": {func(s *pass) {
			s.Env.Spec.NetworkPolicy, s.Taken = v1alpha1.UnmanagedNetworkPolicy, []children.ID{policyID}
		}, nil},
		"the servers' pods are overridden":             {func(s *pass) { s.Env.Spec.Template = everyOverride() }, all[4:]},
		"a quota refuses the pods that an update adds": {func(s *pass) { updating(s, 1, 3) }, all[4:]},
		"as many pods as servers are refused":          {func(s *pass) { updating(s, 3, 3) }, nil},
		"an update without more pods goes on": {func(s *pass) {
			s.Live = existing(t, s.Env, func(p *children.Pool) { p.NoSurge = true })
			updating(s, 1, 3)
			s.Deployment().Status.Conditions = nil
		}, nil},
		"an update without more pods has ended": {func(s *pass) {
			s.Live = existing(t, s.Env, func(p *children.Pool) { p.NoSurge = true })
		}, all[4:]},
		"a version that wanted something more": {func(s *pass) {
			s.Live[children.ID{Kind: children.KindService, Name: "support"}].SetAnnotations(
				map[string]string{"csenv.dev/applied-hash": "of an older version"})
		}, all[:1]},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := pool()
			s := pass{Decision: Decision{Scaling: Scaling{From: 2, To: 2}}}
			s.Snapshot = snapshot.Snapshot{Pool: children.Pool{Env: env, Image: testpool.Image}, Live: existing(t, env)}
			tt.change(&s)
			var got []string
			for _, step := range listSteps(s) {
				if step.Obsolete != nil {
					got = append(got, step.ID.String()+", deleted")
				} else {
					got = append(got, step.ID.String())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}

// updating is a pool whose Deployment has updated some of its pods, and may create no more.
func updating(s *pass, updated, pods int32) {
	d := s.Deployment()
	d.Status.Replicas, d.Status.UpdatedReplicas = pods, updated
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure,
		Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota"}}
}

func addArgument(d *appsv1.Deployment) {
	server := &d.Spec.Template.Spec.Containers[0]
	server.Args = append(server.Args, "--verbose")
}

// For every spec, a pool with applied objects needs no writes, and different specs have different
// hashes.
func TestAppliedPoolNeedsNoWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		env, other := drawPool(r, "first"), drawPool(r, "second")
		s := pass{Decision: Decision{Snapshot: snapshot.Snapshot{
			Pool: children.Pool{Env: env, Image: testpool.Image}, Live: existing(t, env)}}}
		s.Scaling.To = *env.Spec.Replicas
		if steps := listSteps(s); len(steps) > 0 {
			r.Fatalf("%v is applied again in a pool at rest", steps[0].ID)
		}
		s.Env, s.Scaling.To = other, *other.Spec.Replicas
		if same := cmp.Equal(env.Spec, other.Spec); same != (len(listSteps(s)) == 0) {
			r.Fatalf("equal specs: %v, objects to apply: %d", same, len(listSteps(s)))
		}
	})
}

func drawPool(r *rapid.T, label string) *v1alpha1.CustomerSupportEnv {
	number := func(name string, most int32) *int32 { return new(rapid.Int32Range(0, most).Draw(r, label+" "+name)) }
	return pool(func(env *v1alpha1.CustomerSupportEnv) {
		env.Spec.Environment = rapid.SampledFrom([]v1alpha1.EnvironmentType{v1alpha1.TicketEnvironment,
			v1alpha1.WorkflowEnvironment}).Draw(r, label)
		env.Spec.RewardMode = rapid.SampledFrom([]v1alpha1.RewardMode{v1alpha1.DenseReward,
			v1alpha1.TerminalReward}).Draw(r, label+" mode")
		env.Spec.Replicas = number("replicas", 1000)
		env.Spec.DrainTimeoutSeconds = number("drain timeout", 86400)
		env.Spec.Sessions.PerPod = *number("sessions", 100000)
		env.Spec.Sessions.IdleTimeoutSeconds = number("idle timeout", 86400)
		env.Spec.Sessions.MaxDurationSeconds = number("longest session", 604800)
	})
}

func listSteps(p pass) []Step { return ListSteps(p.Decision, p.Scaling.To, nil) }

// existing returns the objects of a pool as the API server would store them.
func existing(t testing.TB, env *v1alpha1.CustomerSupportEnv,
	edits ...func(*children.Pool)) map[children.ID]snapshot.Object {
	t.Helper()
	live, p := map[children.ID]snapshot.Object{}, children.Pool{Env: env, Image: testpool.Image}
	for _, edit := range edits {
		edit(&p)
	}
	for _, c := range children.BuildObjects(p, *env.Spec.Replicas, "") {
		var object snapshot.Object
		switch c.ID.Kind {
		case children.KindDeployment:
			object = &appsv1.Deployment{}
		case children.KindBudget:
			object = &policyv1.PodDisruptionBudget{}
		case children.KindNetworkPolicy:
			object = &networkingv1.NetworkPolicy{}
		default:
			object = &corev1.Service{}
		}
		testpool.DecodeConfig(t, c.Config, object)
		live[c.ID] = object
	}
	return live
}
