package pods

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
)

// base returns the template of a pod with a server and another sidecar.
func base(edits ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"csenv.dev/environment": "support"},
			Annotations: map[string]string{"csenv.dev/scenarios": "1"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "prepare"}},
			Containers: []corev1.Container{{Name: "sidecar"}, {
				Name: "server", Env: []corev1.EnvVar{{Name: "POD_IP", Value: "ours"}},
				Resources: NewResources("50m", "64Mi", "2", "1Gi"),
			}},
		},
	}
	for _, edit := range edits {
		edit(t)
	}
	return t
}

func everything() *v1alpha1.PodOverrides {
	return &v1alpha1.PodOverrides{
		Labels:      map[string]string{"team": "helpdesk"},
		Annotations: map[string]string{"prometheus.io/scrape": "true"},
		Resources: &corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2000Mi")}},
		Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}},

		NodeSelector: map[string]string{"disk": "fast"},
		Tolerations:  []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		Affinity:     &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}},
		PriorityClassName:  "high",
		RuntimeClassName:   new("gvisor"),
		ServiceAccountName: "puller",
		ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "registry"}},

		ImagePullPolicy: corev1.PullAlways,
		SchedulerName:   "volcano",
		SecurityContext: &v1alpha1.PodIdentity{RunAsUser: new(int64(1000)), FSGroup: new(int64(2000))},
		Volumes: []v1alpha1.PodVolume{{Name: "ca", ConfigMap: &v1alpha1.ObjectReference{Name: "authority"}},
			{Name: "key", Secret: &v1alpha1.ObjectReference{Name: "gcs"}},
			{Name: "data", PersistentVolumeClaim: &v1alpha1.VolumeClaimReference{ClaimName: "disk"}},
			{Name: "scratch", EmptyDir: &v1alpha1.EmptyFolder{}}},
		VolumeMounts: []v1alpha1.PodVolumeMount{{Name: "ca", MountPath: "/mnt/ca", ReadOnly: new(true)}},
	}
}

// customVolumes are the volumes of everything.
func customVolumes() []corev1.Volume {
	named := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	return []corev1.Volume{
		named("custom-ca", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "authority"}, DefaultMode: new(int32(0o444))}}),
		named("custom-key", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "gcs",
			DefaultMode: new(int32(0o444))}}),
		named("custom-data", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: "disk"}}),
		named("custom-scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	secured := func(readOnly *bool) *corev1.SecurityContext {
		return &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: readOnly,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	finished := func(edit func(*corev1.PodTemplateSpec, *corev1.Container)) *corev1.PodTemplateSpec {
		t := base()
		t.Spec.AutomountServiceAccountToken, t.Spec.EnableServiceLinks, t.Spec.ServiceAccountName = new(false), new(
			false), "default"
		t.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
		t.Spec.InitContainers[0].SecurityContext, t.Spec.Containers[0].SecurityContext = secured(nil), secured(nil)
		t.Spec.Containers[1].SecurityContext = secured(new(true))
		edit(t, &t.Spec.Containers[1])
		return t
	}
	limit := func(value string) corev1.EnvVar { return corev1.EnvVar{Name: "GOMEMLIMIT", Value: value} }
	// Nine tenths of 1 GiB, and of 2000 MiB.
	const ofOneGiB, of2000MiB = "966367620", "1887436800"
	tests := map[string]struct {
		template  *corev1.PodTemplateSpec
		overrides *v1alpha1.PodOverrides
		want      *corev1.PodTemplateSpec
	}{
		"no overrides": {base(), nil, finished(func(_ *corev1.PodTemplateSpec,
			own *corev1.Container) {
			own.Env = append(own.Env, limit(ofOneGiB))
		})},
		"every override": {base(), everything(), finished(func(t *corev1.PodTemplateSpec, own *corev1.Container) {
			o := everything()
			t.Labels["team"], t.Annotations["prometheus.io/scrape"] = "helpdesk", "true"
			own.Resources = *o.Resources
			own.Env = append(own.Env, limit(of2000MiB), o.Env[0])
			t.Spec.NodeSelector, t.Spec.Tolerations, t.Spec.Affinity = o.NodeSelector, o.Tolerations, o.Affinity
			t.Spec.TopologySpreadConstraints = o.TopologySpreadConstraints
			t.Spec.PriorityClassName, t.Spec.RuntimeClassName = o.PriorityClassName, o.RuntimeClassName
			t.Spec.ServiceAccountName, t.Spec.ImagePullSecrets = o.ServiceAccountName, o.ImagePullSecrets
			t.Spec.SchedulerName, own.ImagePullPolicy = "volcano", corev1.PullAlways
			t.Spec.SecurityContext.RunAsUser, t.Spec.SecurityContext.FSGroup = new(int64(1000)), new(int64(2000))
			own.VolumeMounts = []corev1.VolumeMount{{Name: "custom-ca", MountPath: "/mnt/ca", ReadOnly: true}}
			t.Spec.Volumes = customVolumes()
		})},
		"csenv's own values remain": {base(), &v1alpha1.PodOverrides{
			Labels: map[string]string{"csenv.dev/environment": "other", "csenv.dev/run": "r",
				"app.kubernetes.io/component": "runner"},
			Annotations: map[string]string{"csenv.dev/scenarios": "2",
				"container.apparmor.security.beta.kubernetes.io/server": "unconfined",
				"seccomp.security.alpha.kubernetes.io/pod":              "unconfined"},
			Env: []corev1.EnvVar{{Name: "POD_IP", Value: "theirs"}, {Name: "GOMEMLIMIT", Value: "off"}},
		}, finished(func(_ *corev1.PodTemplateSpec, own *corev1.Container) {
			own.Env = append(own.Env,
				limit(ofOneGiB))
		})},
		"no limit of memory": {base(), &v1alpha1.PodOverrides{Resources: &corev1.ResourceRequirements{}},
			finished(func(_ *corev1.PodTemplateSpec, own *corev1.Container) {
				own.Resources = corev1.ResourceRequirements{}
			})},
		"a template that was less secure": {base(func(t *corev1.PodTemplateSpec) {
			t.Spec.AutomountServiceAccountToken = new(true)
			t.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(false),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
			t.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true),
				RunAsUser: new(int64(0))}
		}), nil, finished(func(_ *corev1.PodTemplateSpec, own *corev1.Container) {
			own.Env = append(own.Env,
				limit(ofOneGiB))
		})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, asked := tt.template.DeepCopy(), tt.overrides.DeepCopy()
			if diff := cmp.Diff(tt.want, FinishTemplate(tt.template, "server", tt.overrides)); diff != "" {
				t.Errorf("finished (-want +got):\n%s", diff)
			}
			if !cmp.Equal(before, tt.template) || !cmp.Equal(asked, tt.overrides) {
				t.Error("the argument has changed")
			}
		})
	}
}

// A finished pod shares no data with the object from the cache.
func TestFinishCopies(t *testing.T) {
	t.Parallel()
	overrides := everything()
	finished := FinishTemplate(base(), "server", overrides)
	own := &finished.Spec.Containers[slices.IndexFunc(finished.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == "server" })]
	own.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1")
	finished.Spec.NodeSelector["disk"] = "slow"
	finished.Spec.Affinity.NodeAffinity = nil
	finished.Spec.Tolerations[0].Key = "other"
	if diff := cmp.Diff(everything(), overrides); diff != "" {
		t.Errorf("the overrides changed (-want +got):\n%s", diff)
	}
}
