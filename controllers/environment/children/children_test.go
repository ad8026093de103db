package children

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

var (
	pool          = testpool.MakePool
	replicas      = testpool.WithReplicas
	judgedByModel = testpool.JudgedByModel
	withPacks     = testpool.WithPacks
	guarded       = testpool.RequireToken
)

// builtDeployment returns the Deployment that a pool gets.
func builtDeployment(t *testing.T, env *v1alpha1.CustomerSupportEnv) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	testpool.DecodeConfig(t, buildDeployment(Pool{Env: env, Image: testpool.Image}, *env.Spec.Replicas, ""), d)
	return d
}

func TestServerArgs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env  *v1alpha1.CustomerSupportEnv
		want []string
	}{
		"defaults": {pool(), []string{
			"--environment", "ticket", "--addr", ":8000", "--ops-addr", ":9000", "--max-sessions", "2000",
			"--client-share", "90", "--session-idle-timeout", "3600s",
			"--session-max-duration", "7200s", "--drain-timeout", "3600s", "--reward-mode", "dense",
			"--termination-log", "/dev/termination-log", "--ledger-key", "/etc/csenv/ledger-key/key.pem",
			"--peers", "support-pods.shop.svc:8000",
		}},
		"everything set": {pool(func(env *v1alpha1.CustomerSupportEnv) {
			env.Spec.Environment = v1alpha1.WorkflowEnvironment
			env.Spec.RewardMode = v1alpha1.TerminalReward
			env.Spec.DrainTimeoutSeconds = new(int32(0))
			env.Spec.Sessions = v1alpha1.SessionLimits{PerPod: 1, IdleTimeoutSeconds: new(int32(0)),
				MaxDurationSeconds: new(int32(1))}
		}), []string{
			"--environment", "workflow", "--addr", ":8000", "--ops-addr", ":9000", "--max-sessions", "1",
			"--client-share", "100", "--session-idle-timeout", "0s",
			"--session-max-duration", "1s", "--drain-timeout", "0s", "--reward-mode", "terminal", "--termination-log",
			"/dev/termination-log", "--ledger-key", "/etc/csenv/ledger-key/key.pem",
			"--peers", "support-pods.shop.svc:8000",
		}},
		"a model as the customer": {pool(testpool.SpokenByModel), []string{
			"--environment", "workflow", "--addr", ":8000", "--ops-addr", ":9000", "--max-sessions", "2000",
			"--client-share", "90", "--session-idle-timeout", "3600s",
			"--session-max-duration", "7200s", "--drain-timeout", "3600s", "--reward-mode", "dense",
			"--termination-log", "/dev/termination-log", "--ledger-key", "/etc/csenv/ledger-key/key.pem",
			"--peers", "support-pods.shop.svc:8000",
			"--customer", "llm", "--customer-base-url", "https://models.example/v1", "--customer-model",
			"customer-2026-01-01", "--customer-max-concurrency", "8", "--customer-timeout", "10s",
		}},
		"packs and a model": {pool(judgedByModel, withPacks), []string{
			"--environment", "ticket", "--addr", ":8000", "--ops-addr", ":9000", "--max-sessions", "2000",
			"--client-share", "90", "--session-idle-timeout", "3600s",
			"--session-max-duration", "7200s", "--drain-timeout", "3600s", "--reward-mode", "dense",
			"--termination-log", "/dev/termination-log", "--ledger-key", "/etc/csenv/ledger-key/key.pem",
			"--peers", "support-pods.shop.svc:8000",
			"--split", "private,public-test", "--pack", "/etc/csenv/packs/pack-0", "--pack", "/etc/csenv/packs/pack-1",
			"--judge", "llm", "--judge-base-url", "https://models.example/v1", "--judge-model", "judge-2026-01-01",
			"--judge-max-concurrency", "8",
			"--judge-timeout", "30s", "--judge-on-failure", "error",
		}},
		"a token": {pool(guarded), []string{
			"--environment", "ticket", "--addr", ":8000", "--ops-addr", ":9000", "--max-sessions", "2000",
			"--client-share", "90", "--session-idle-timeout", "3600s",
			"--session-max-duration", "7200s", "--drain-timeout", "3600s", "--reward-mode", "dense",
			"--termination-log", "/dev/termination-log", "--ledger-key", "/etc/csenv/ledger-key/key.pem",
			"--peers", "support-pods.shop.svc:8000", "--token-file", "/etc/csenv/token/token",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, buildArgs(tt.env)); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

// A server's packs are mounted as files, and the judge's key is only in a variable that refers to
// the Secret.
func TestDeploymentMountsReferencedObjects(t *testing.T) {
	t.Parallel()
	spec := builtDeployment(t, pool(judgedByModel, withPacks, guarded)).Spec.Template.Spec
	sources := map[string]string{}
	for _, v := range spec.Volumes {
		optional := false
		switch {
		case v.ConfigMap != nil:
			sources[v.Name], optional = "ConfigMap "+v.ConfigMap.Name, *v.ConfigMap.Optional
		case v.Secret != nil:
			sources[v.Name], optional = "Secret "+v.Secret.SecretName, v.Secret.Optional != nil && *v.Secret.Optional
		}
		for _, item := range ptr.Deref(v.Secret, corev1.SecretVolumeSource{}).Items {
			sources[v.Name] += fmt.Sprintf(", %s as %s", item.Key, item.Path)
		}
		if optional != (v.Name != keyVolume) {
			t.Errorf("%s may be missing: %v. A server reports what it lacks, but must not start without its key",
				v.Name, optional)
		}
	}
	got := map[string]string{}
	for _, m := range spec.Containers[0].VolumeMounts {
		if !m.ReadOnly {
			t.Errorf("%s is writable", m.MountPath)
		}
		got[m.MountPath] = sources[m.Name]
	}
	want := map[string]string{
		keyFolder: "Secret " + keys.SecretName("support", "public"), "/etc/csenv/packs/pack-0": "ConfigMap acme",
		"/etc/csenv/packs/pack-1": "Secret held-out",
		"/etc/csenv/token":        "Secret clients, tokens as token",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(spec.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == "CSENV_JUDGE_API_KEY" })
	if i < 0 || spec.Containers[0].Env[i].ValueFrom.SecretKeyRef.Name != "models" ||
		spec.Containers[0].Env[i].ValueFrom.SecretKeyRef.Key != "token" {
		t.Errorf("variables %v don't have the judge's key", spec.Containers[0].Env)
	}
}

// A server gets its own address, to find itself among its peers.
func TestDeploymentPassesAddress(t *testing.T) {
	t.Parallel()
	for _, v := range builtDeployment(t, pool()).Spec.Template.Spec.Containers[0].Env {
		if v.Name == "POD_IP" {
			if v.ValueFrom == nil || v.ValueFrom.FieldRef == nil || v.ValueFrom.FieldRef.FieldPath != "status.podIP" {
				t.Errorf("POD_IP comes from %v", v.ValueFrom)
			}
			return
		}
	}
	t.Error("no POD_IP, which --peers needs")
}

func TestDeploymentKeepsServing(t *testing.T) {
	t.Parallel()
	d := builtDeployment(t, pool())
	if got := *d.Spec.Replicas; got != 2 {
		t.Errorf("replicas = %d, want 2", got)
	}
	if got := d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(); got != 0 {
		t.Errorf("maxUnavailable = %d, want 0: new servers are ready before old ones drain", got)
	}
	if got := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; got != 3630 {
		t.Errorf("terminationGracePeriodSeconds = %d, want the drain timeout and 30 more", got)
	}
	if hook := d.Spec.Template.Spec.Containers[0].Lifecycle.PreStop; hook.Sleep.Seconds < 1 {
		t.Errorf("preStop = %+v: a server that is deleted while it starts would miss SIGTERM", hook)
	}
	got := d.Spec.Template.Spec.Containers[0].TerminationMessagePolicy
	if got != corev1.TerminationMessageFallbackToLogsOnError {
		t.Errorf("terminationMessagePolicy = %s: the status couldn't quote a server's error", got)
	}
}

// The hash depends only on the template, so that other changes don't restart servers.
func TestTemplateHash(t *testing.T) {
	t.Parallel()
	hashOf := func(env *v1alpha1.CustomerSupportEnv, image string) string {
		return BuildPodTemplate(Pool{Env: env, Image: image}, "").Annotations[TemplateHash]
	}
	same := hashOf(pool(), testpool.Image)
	if got := hashOf(pool(replicas(7)), testpool.Image); got != same {
		t.Errorf("scaling changes the template's hash")
	}
	changes := map[string]string{
		"image": hashOf(pool(), "csenv:next"),
		"key": hashOf(pool(func(env *v1alpha1.CustomerSupportEnv) { env.Status.LedgerPublicKey = "other" }),
			testpool.Image),
		"judge":    hashOf(pool(judgedByModel), testpool.Image),
		"customer": hashOf(pool(testpool.SpokenByModel), testpool.Image),
		"packs":    hashOf(pool(withPacks), testpool.Image),
		"limits":   hashOf(pool(func(env *v1alpha1.CustomerSupportEnv) { env.Spec.Sessions.PerPod = 5 }), testpool.Image),
	}
	for name, got := range changes {
		if got == same {
			t.Errorf("another %s doesn't change the template's hash", name)
		}
	}
}

// They are deleted with the pool.
func TestChildrenAreOwned(t *testing.T) {
	t.Parallel()
	env := pool()
	for _, child := range BuildObjects(Pool{Env: env, Image: testpool.Image}, 2, "") {
		object := &metav1.PartialObjectMetadata{}
		testpool.DecodeConfig(t, child.Config, object)
		if !metav1.IsControlledBy(object, env) || !*metav1.GetControllerOf(object).BlockOwnerDeletion {
			t.Errorf("%s has owners %v, want the pool, which waits for it in a foreground deletion", child.ID,
				object.GetOwnerReferences())
		}
		if diff := cmp.Diff(LabelObject("support"), object.GetLabels()); diff != "" {
			t.Errorf("%s labels (-want +got):\n%s", child.ID, diff)
		}
	}
}

func TestDeploymentSelectsItsPods(t *testing.T) {
	t.Parallel()
	d := builtDeployment(t, pool())
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	pod := corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta}
	runner := map[string]string{v1alpha1.LabelName: "csenv", v1alpha1.LabelComponent: v1alpha1.ComponentRunner,
		v1alpha1.LabelEnvironment: "support"}
	if !selector.Matches(labels.Set(pod.Labels)) || selector.Matches(labels.Set(runner)) {
		t.Errorf("selector %s must select servers %v and no runners", selector, pod.Labels)
	}
}
