// Package pods finishes the pods that csenv makes: the servers of a pool and the runners of a run.
//
// A controller builds the template that it needs, of Kubernetes' own types. Finish then changes it
// as the user's overrides say and secures it, in this order, so that no override can make a pod
// less secure: it meets the restricted Pod Security Standard and has no access to the Kubernetes
// API, whatever it was before. What the controller has set stands; overrides add to it. They can't
// take the place of a label, an annotation or a variable that csenv needs, and where the API server
// has the schemas of this version, it refuses to store any that try.
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

// MemoryLimitVariable is the Go runtime's soft limit of memory, in bytes. It follows the
// container's limit.
const MemoryLimitVariable = "GOMEMLIMIT"

// goMemoryPercent of the container's memory is the Go runtime's soft limit: the rest is for what it
// doesn't count.
const goMemoryPercent = 90

// Finish returns the template as overrides change it, and secured. Resources and variables are
// those of the container of the given name, which runs a program of csenv's; labels, annotations
// and placement are the pod's. The template may have further containers. It isn't changed itself.
func Finish(template *corev1.PodTemplateSpec, container string,
	overrides *v1alpha1.PodOverrides) *corev1.PodTemplateSpec {
	finished := template.DeepCopy()
	override(finished, ownContainer(&finished.Spec, container), ptr.Deref(overrides, v1alpha1.PodOverrides{}))
	secure(&finished.Spec, container)
	return finished
}

// Resources are requests and limits of a container, in the notation of Kubernetes.
func Resources(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return corev1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

// ownContainer panics without such a container: that is a mistake in the program, not in what it
// was given.
func ownContainer(spec *corev1.PodSpec, name string) *corev1.Container {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	return &spec.Containers[i]
}

func override(template *corev1.PodTemplateSpec, own *corev1.Container, o v1alpha1.PodOverrides) {
	template.Labels = merged(template.Labels, o.Labels)
	template.Annotations = merged(template.Annotations, o.Annotations)
	if o.Resources != nil {
		own.Resources = *o.Resources.DeepCopy()
	}
	own.Env = append(own.Env, memoryLimit(own.Resources)...)
	for _, variable := range o.Env {
		if !slices.ContainsFunc(own.Env, func(ours corev1.EnvVar) bool { return ours.Name == variable.Name }) {
			own.Env = append(own.Env, *variable.DeepCopy())
		}
	}
	place(&template.Spec, *o.DeepCopy())
}

// place says where pods run, and what admits and pulls them. Nothing of it is csenv's own choice.
func place(spec *corev1.PodSpec, o v1alpha1.PodOverrides) {
	spec.NodeSelector = o.NodeSelector
	spec.Tolerations = o.Tolerations
	spec.Affinity = o.Affinity
	spec.TopologySpreadConstraints = o.TopologySpreadConstraints
	spec.PriorityClassName = o.PriorityClassName
	spec.RuntimeClassName = o.RuntimeClassName
	// Named in any case: a name that is only left out stays in the deprecated field to which the
	// API server copies it.
	spec.ServiceAccountName = cmp.Or(o.ServiceAccountName, "default")
	spec.ImagePullSecrets = o.ImagePullSecrets
}

// memoryLimit is a variable where the container's memory is limited. GOMAXPROCS needs none: the
// runtime follows the limit of CPU by itself.
func memoryLimit(r corev1.ResourceRequirements) []corev1.EnvVar {
	limit, limited := r.Limits[corev1.ResourceMemory]
	if !limited {
		return nil
	}
	return []corev1.EnvVar{{Name: MemoryLimitVariable, Value: strconv.FormatInt(limit.Value()/100*goMemoryPercent, 10)}}
}

// merged adds what is neither set nor reserved.
func merged(ours, theirs map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range theirs {
		if !reserved(key) {
			all[key] = value
		}
	}
	maps.Copy(all, ours)
	return all
}

// reserved are labels by which csenv finds its pods, and annotations that loosened a container's
// profile before there were fields for it.
func reserved(key string) bool {
	return slices.ContainsFunc([]string{
		"csenv.dev/", "app.kubernetes.io/", "container.apparmor.security.beta.kubernetes.io/",
		"container.seccomp.security.alpha.kubernetes.io/",
		"seccomp.security.alpha.kubernetes.io/",
	}, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// secure has every container meet the restricted Pod Security Standard, and gives csenv's own a
// root that can't be written to.
func secure(spec *corev1.PodSpec, own string) {
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
