// Package pods builds and reads the pods of csenv: the servers of a pool and the runners of a run.
//
// A controller builds the template that it needs. Finish then applies the user's overrides and
// secures the result, in this order, so that no override can weaken it: it meets the restricted Pod
// Security Standard and has no access to the Kubernetes API. Overrides add to the template and
// can't replace a label, an annotation or a variable that csenv needs.
package pods

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

// MemoryLimitVariable is the Go runtime's soft memory limit, in bytes.
const MemoryLimitVariable = "GOMEMLIMIT"

// goMemoryPercent leaves room for memory that the Go runtime doesn't count.
const goMemoryPercent = 90

// FinishTemplate returns a secured copy of the template with the overrides. Resources and variables
// apply to the container of the given name; labels, annotations and placement apply to the pod.
func FinishTemplate(template *corev1.PodTemplateSpec, container string,
	overrides *v1alpha1.PodOverrides) *corev1.PodTemplateSpec {
	finished := template.DeepCopy()
	applyOverrides(finished, ownContainer(&finished.Spec, container), ptr.Deref(overrides, v1alpha1.PodOverrides{}))
	securePod(&finished.Spec, container)
	return finished
}

// NewResources returns the requests and limits of a container.
func NewResources(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return corev1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

func ownContainer(spec *corev1.PodSpec, name string) *corev1.Container {
	return FindFirst(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

func applyOverrides(template *corev1.PodTemplateSpec, own *corev1.Container, o v1alpha1.PodOverrides) {
	template.Labels = mergeMetadata(template.Labels, o.Labels)
	template.Annotations = mergeMetadata(template.Annotations, o.Annotations)
	if o.Resources != nil {
		own.Resources = *o.Resources.DeepCopy()
	}
	own.ImagePullPolicy = cmp.Or(o.ImagePullPolicy, own.ImagePullPolicy)
	own.VolumeMounts = append(own.VolumeMounts, NewVolumeMounts(o.VolumeMounts)...)
	own.Env = append(own.Env, memoryLimit(own.Resources)...)
	for _, variable := range o.Env {
		if !slices.ContainsFunc(own.Env, func(ours corev1.EnvVar) bool { return ours.Name == variable.Name }) {
			own.Env = append(own.Env, *variable.DeepCopy())
		}
	}
	setPlacement(&template.Spec, *o.DeepCopy())
}

// setPlacement sets where pods run, and what admits and pulls them.
func setPlacement(spec *corev1.PodSpec, o v1alpha1.PodOverrides) {
	spec.NodeSelector = o.NodeSelector
	spec.Tolerations = o.Tolerations
	spec.Affinity = o.Affinity
	spec.TopologySpreadConstraints = o.TopologySpreadConstraints
	spec.PriorityClassName = o.PriorityClassName
	spec.RuntimeClassName = o.RuntimeClassName
	// Always set, because the API server copies the name to a deprecated field, which would keep
	// it.
	spec.ServiceAccountName = cmp.Or(o.ServiceAccountName, "default")
	spec.ImagePullSecrets = o.ImagePullSecrets
	spec.SchedulerName = o.SchedulerName
	for _, v := range o.Volumes {
		spec.Volumes = append(spec.Volumes, newVolume(v))
	}
	if id := o.SecurityContext; id != nil {
		if spec.SecurityContext == nil {
			spec.SecurityContext = &corev1.PodSecurityContext{}
		}
		c := spec.SecurityContext
		c.RunAsUser, c.RunAsGroup, c.FSGroup = id.RunAsUser, id.RunAsGroup, cmp.Or(id.FSGroup, c.FSGroup)
	}
}

// volumePrefix distinguishes a user's volumes from csenv's own, which no user may mount.
const volumePrefix = "custom-"

func newVolume(v v1alpha1.PodVolume) corev1.Volume {
	made := corev1.Volume{Name: volumePrefix + v.Name}
	switch {
	case v.ConfigMap != nil:
		made.ConfigMap = &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMap.Name}, DefaultMode: new(int32(0o444))}
	case v.Secret != nil:
		made.Secret = &corev1.SecretVolumeSource{SecretName: v.Secret.Name, DefaultMode: new(int32(0o444))}
	case v.PersistentVolumeClaim != nil:
		made.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: v.PersistentVolumeClaim.ClaimName}
	default:
		made.EmptyDir = &corev1.EmptyDirVolumeSource{
			SizeLimit: ptr.Deref(v.EmptyDir, v1alpha1.EmptyFolder{}).SizeLimit}
	}
	return made
}

// NewVolumeMounts returns the mounts of a user's volumes.
func NewVolumeMounts(mounts []v1alpha1.PodVolumeMount) []corev1.VolumeMount {
	made := make([]corev1.VolumeMount, 0, len(mounts))
	for _, m := range mounts {
		made = append(made, corev1.VolumeMount{Name: volumePrefix + m.Name, MountPath: m.MountPath, SubPath: m.SubPath,
			ReadOnly: ptr.Deref(m.ReadOnly, false)})
	}
	return made
}

// memoryLimit sets GOMEMLIMIT if the memory is limited. GOMAXPROCS follows the CPU limit by itself.
func memoryLimit(r corev1.ResourceRequirements) []corev1.EnvVar {
	limit, limited := r.Limits[corev1.ResourceMemory]
	if !limited {
		return nil
	}
	return []corev1.EnvVar{{Name: MemoryLimitVariable, Value: strconv.FormatInt(limit.Value()/100*goMemoryPercent, 10)}}
}

// mergeMetadata adds the keys that are neither set nor reserved.
func mergeMetadata(ours, theirs map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range theirs {
		if !isReservedKey(key) {
			all[key] = value
		}
	}
	maps.Copy(all, ours)
	return all
}

// isReservedKey reports whether a key selects csenv's pods, says what a Job did with them, or once
// loosened a container's profile.
func isReservedKey(key string) bool {
	return slices.ContainsFunc([]string{
		"csenv.dev/", "app.kubernetes.io/", "batch.kubernetes.io/",
		"container.apparmor.security.beta.kubernetes.io/",
		"container.seccomp.security.alpha.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/",
	}, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// securePod makes every container meet the restricted Pod Security Standard, and the own
// container's root read-only.
func securePod(spec *corev1.PodSpec, own string) {
	spec.AutomountServiceAccountToken = new(false)
	spec.EnableServiceLinks = new(false)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	spec.SecurityContext.RunAsNonRoot = new(true)
	spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].SecurityContext = &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
			if containers[i].Name == own {
				containers[i].SecurityContext.ReadOnlyRootFilesystem = new(true)
			}
		}
	}
}
