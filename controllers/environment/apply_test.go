package environment

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// materialise returns the object that the API server would store for an apply configuration,
// without defaults.
func materialise(t *testing.T, c child) client.Object {
	t.Helper()
	data, err := json.Marshal(c.config)
	if err != nil {
		t.Fatal(err)
	}
	object := newObject(c.id.kind)
	if err := json.Unmarshal(data, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func existing(t *testing.T, env *v1alpha1.CustomerSupportEnv) map[childID]client.Object {
	t.Helper()
	live := map[childID]client.Object{}
	d := decision{snapshot: snapshot{env: env, image: testImage}, scaling: scaling{to: *env.Spec.Replicas}}
	for _, c := range children(d) {
		if c.config != nil {
			live[c.id] = materialise(t, c)
		}
	}
	return live
}

func TestChanges(t *testing.T) {
	t.Parallel()
	all := []string{"Service support", "Service support-pods", "PodDisruptionBudget support", "NetworkPolicy support",
		"Deployment support"}
	deploymentID, policyID := childID{kindDeployment, "support"}, childID{kindNetworkPolicy, "support"}
	tests := map[string]struct {
		change func(*decision)
		want   []string
	}{
		"nothing exists":    {func(s *decision) { s.live = nil }, all},
		"everything exists": {func(*decision) {}, nil},
		"a name is taken": {func(s *decision) {
			s.live, s.taken = nil,
				[]childID{{kindService, "support"}}
		}, all[1:]},
		"an earlier pool's old object": {func(s *decision) { s.live, s.leaving = nil, []childID{deploymentID} },
			all[:4]},
		"defaults and fields of others are no difference": {func(s *decision) {
			d := s.live[deploymentID].(*appsv1.Deployment)
			d.Spec.RevisionHistoryLimit = new(int32(10))
			d.Labels["team"] = "support"
			d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "sidecar"}},
				d.Spec.Template.Spec.Containers...)
		}, nil},
		"the kind of a typed object is no difference": {func(s *decision) {
			s.live[deploymentID].(*appsv1.Deployment).Kind = ""
		}, nil},
		"replicas scaled manually": {func(s *decision) {
			s.live[deploymentID].(*appsv1.Deployment).Spec.Replicas = new(
				int32(9))
		}, all[4:]},
		"an argument added manually": {func(s *decision) { addArgument(s.live[deploymentID].(*appsv1.Deployment)) },
			all[4:]},
		"a label removed manually": {func(s *decision) { s.live[childID{kindService, "support"}].SetLabels(nil) },
			all[:1]},
		"the owner removed manually": {func(s *decision) {
			s.live[childID{kindBudget, "support"}].SetOwnerReferences(
				nil)
		}, all[2:3]},
		"the budget loosened manually": {func(s *decision) {
			s.live[childID{kindBudget, "support"}].(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable = nil
		}, all[2:3]},
		"the spec scales": {func(s *decision) { s.scaling.to = 0 }, all[4:]},
		"the spec's reward mode changes": {func(s *decision) { s.env.Spec.RewardMode = v1alpha1.TerminalReward },
			all[4:]},
		"the image changes": {func(s *decision) { s.image = "csenv:next" }, all[4:]},
		"a new key pair":    {func(s *decision) { s.env.Status.LedgerPublicKey = "other" }, all[4:]},
		"a rule added to the network policy manually": {func(s *decision) {
			policy := s.live[policyID].(*networkingv1.NetworkPolicy)
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		}, all[3:4]},
		"a rule of the network policy widened manually": {func(s *decision) {
			rule := &s.live[policyID].(*networkingv1.NetworkPolicy).Spec.Ingress[0]
			rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}})
		}, all[3:4]},
		"the network policy is no longer wanted": {
			func(s *decision) { s.env.Spec.NetworkPolicy = v1alpha1.UnmanagedNetworkPolicy },
			[]string{"NetworkPolicy support, deleted"}},
		"a network policy that was never wanted": {func(s *decision) {
			s.env.Spec.NetworkPolicy = v1alpha1.UnmanagedNetworkPolicy
			delete(s.live, policyID)
		}, nil},
		"an unmanaged network policy of another owner": {func(s *decision) {
			s.env.Spec.NetworkPolicy, s.taken = v1alpha1.UnmanagedNetworkPolicy, []childID{policyID}
		}, nil},
		"the servers' pods are overridden": {func(s *decision) { s.env.Spec.Template = everyOverride() }, all[4:]},
		"a version that wanted something more": {func(s *decision) {
			s.live[childID{kindService, "support"}].SetAnnotations(
				map[string]string{appliedHash: "of an older version"})
		}, all[:1]},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := pool()
			s := decision{scaling: scaling{from: 2, to: 2}}
			s.snapshot = snapshot{env: env, image: testImage, live: existing(t, env)}
			tt.change(&s)
			var got []string
			for _, step := range changes(s, nil) {
				if step.obsolete != nil {
					got = append(got, step.id.String()+", deleted")
				} else {
					got = append(got, step.id.String())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}

func addArgument(d *appsv1.Deployment) {
	server := &d.Spec.Template.Spec.Containers[0]
	server.Args = append(server.Args, "--verbose")
}

func TestHolds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		live, want string
		holds      bool
	}{
		"equal":                         {`{"a":1}`, `{"a":1}`, true},
		"more fields":                   {`{"a":1,"b":2}`, `{"a":1}`, true},
		"a field less":                  {`{"a":1}`, `{"a":1,"b":2}`, false},
		"another value":                 {`{"a":1}`, `{"a":2}`, false},
		"another type":                  {`{"a":"1"}`, `{"a":1}`, false},
		"not an object":                 {`{"a":[]}`, `{"a":{"b":1}}`, false},
		"not a list":                    {`{"a":{}}`, `{"a":[1]}`, false},
		"plain items in another order":  {`{"a":["x","y"]}`, `{"a":["y","x"]}`, false},
		"more plain items":              {`{"a":["x","y"]}`, `{"a":["x"]}`, false},
		"objects in another order":      {`{"a":[{"n":1},{"n":2}]}`, `{"a":[{"n":2},{"n":1}]}`, true},
		"more objects, and more in one": {`{"a":[{"n":1,"d":0},{"n":2}]}`, `{"a":[{"n":1}]}`, true},
		"an object less":                {`{"a":[{"n":1}]}`, `{"a":[{"n":2}]}`, false},
		"nothing is wanted of a list":   {`{"a":[1]}`, `{"a":[]}`, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := holds(fields(json.RawMessage(tt.live)), fields(json.RawMessage(tt.want))); got != tt.holds {
				t.Errorf("holds(%s, %s) = %v, want %v", tt.live, tt.want, got, tt.holds)
			}
		})
	}
}

// For every spec, a pool with applied objects needs no writes, and different specs have different
// hashes.
func TestAppliedPoolNeedsNoWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		env, other := drawPool(r, "first"), drawPool(r, "second")
		s := decision{snapshot: snapshot{env: env, image: testImage, live: existing(t, env)}}
		s.scaling.to = *env.Spec.Replicas
		if steps := changes(s, nil); len(steps) > 0 {
			r.Fatalf("%v is applied again in a pool at rest", steps[0].id)
		}
		s.env, s.scaling.to = other, *other.Spec.Replicas
		if same := cmp.Equal(env.Spec, other.Spec); same != (len(changes(s, nil)) == 0) {
			r.Fatalf("equal specs: %v, objects to apply: %d", same, len(changes(s, nil)))
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
