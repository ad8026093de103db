package v1alpha1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodOverrides changes the pods of servers or runners. A set field replaces the default; labels,
// annotations, env and volumes are added and can't replace those that csenv needs.
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || has(self.volumes) && self.volumeMounts.all(m, self.volumes.exists(v, v.name == m.name))",message="volumeMounts names a volume that is not in volumes"
type PodOverrides struct {
	// labels are added to the pods. The prefixes csenv.dev/ and app.kubernetes.io/ are reserved.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/') && !k.startsWith('app.kubernetes.io/'))",message="the label prefixes csenv.dev/ and app.kubernetes.io/ are reserved"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the pods. The prefixes csenv.dev/ and batch.kubernetes.io/ are
	// reserved, and none may loosen a container's security profile.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/') && !k.startsWith('app.kubernetes.io/') && !k.startsWith('batch.kubernetes.io/'))",message="the annotation prefixes csenv.dev/, app.kubernetes.io/ and batch.kubernetes.io/ are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('container.apparmor.security.beta.kubernetes.io/') && !k.startsWith('container.seccomp.security.alpha.kubernetes.io/') && !k.startsWith('seccomp.security.alpha.kubernetes.io/'))",message="AppArmor and seccomp profiles can't be set: the pods use those of the container runtime"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// resources replace the requests and limits of csenv's container. GOMEMLIMIT, the memory limit
	// of the Go runtime, is nine tenths of limits.memory, which is at least 64Mi.
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !('memory' in self.limits) || quantity(string(self.limits['memory'])).compareTo(quantity('64Mi')) >= 0",message="limits.memory must be at least 64Mi: csenv's container can't work with less"
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || ['cpu', 'memory'].all(r, !(r in self.limits) || !(r in self.requests) || quantity(string(self.requests[r])).compareTo(quantity(string(self.limits[r]))) <= 0)",message="requests of cpu and memory can't exceed their limits"
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// env are additional environment variables of csenv's container. GOMEMLIMIT, POD_IP, names that
	// begin with CSENV_ and those that correspond to fields of the spec are reserved. Runs may set
	// fewer: see their template.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(v, !v.name.startsWith('CSENV_') && !(v.name in ['GOMEMLIMIT', 'POD_IP', 'JOB_COMPLETION_INDEX']))",message="GOMEMLIMIT, POD_IP, JOB_COMPLETION_INDEX and variables that begin with CSENV_ are reserved: set resources.limits.memory to change GOMEMLIMIT"
	// +kubebuilder:validation:XValidation:rule="self.all(v, !(v.name in ['MAX_CONCURRENT_ENVS', 'SESSION_IDLE_TIMEOUT_S', 'OPENENV_MODE']))",message="set sessions.perPod and sessions.idleTimeoutSeconds instead of MAX_CONCURRENT_ENVS and SESSION_IDLE_TIMEOUT_S; OPENENV_MODE can't be set, because runs need every route"
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// nodeSelector are the labels that a node must have.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are the node taints that the pods tolerate.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator in ['Exists', 'Equal', 'Lt', 'Gt'])",message="the operator of a toleration is Exists, Equal, Lt or Gt"
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity are the affinity rules of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints are the topology spread constraints of the pods.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is the RuntimeClass of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`

	// serviceAccountName is the ServiceAccount of the pods, for image pull secrets and admission.
	// Its token is never mounted. Defaults to default.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// imagePullSecrets are the Secrets with which the image is pulled.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// imagePullPolicy is when the image of csenv's container is pulled: Always, IfNotPresent or
	// Never. Defaults to Kubernetes' own choice.
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// schedulerName is the scheduler of the pods. Defaults to the cluster's own.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// securityContext sets the user and the groups of the pods. The rest of their security can't be
	// changed: it meets the restricted Pod Security Standard.
	// +optional
	SecurityContext *PodIdentity `json:"securityContext,omitempty"`

	// volumes are additional volumes of the pods, for example with the certificates of a private
	// authority.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Volumes []PodVolume `json:"volumes,omitempty"`

	// volumeMounts are the volumes that csenv's container sees, in folders below /mnt.
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(m, m.mountPath.startsWith('/mnt/'))",message="csenv's own container mounts volumes below /mnt/ only: point variables such as SSL_CERT_DIR there"
	// +optional
	VolumeMounts []PodVolumeMount `json:"volumeMounts,omitempty"`
}

// IsRunVariable reports whether the author of a run may set a variable of its runners. The rule of
// EvaluationRunSpec.Template has the same names.
func IsRunVariable(name string) bool {
	return strings.HasPrefix(name, "OTEL_") || IsTransportVariable(name) || slices.Contains([]string{"AWS_REGION",
		"AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ACCOUNT",
		"AZURE_STORAGE_DOMAIN", "TRACEPARENT"}, name)
}

// IsTransportVariable reports whether a variable decides through which proxy a program sends its
// requests, or which servers it trusts.
func IsTransportVariable(name string) bool {
	return slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"http_proxy", "https_proxy", "no_proxy"}, name)
}

// PodIdentity is the user and the groups of a pod.
type PodIdentity struct {
	// runAsUser is the user ID of the containers, from 1 to 2147483647. Defaults to the image's
	// user.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the primary group ID of the containers, from 1 to 2147483647. Defaults to the
	// image's group.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the group ID that may write to the volumes, from 1 to 2147483647.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	FSGroup *int64 `json:"fsGroup,omitempty"`
}

// PodVolume is a volume of a pod.
// +kubebuilder:validation:XValidation:rule="[has(self.configMap), has(self.secret), has(self.persistentVolumeClaim), has(self.emptyDir)].filter(given, given).size() == 1",message="exactly one of configMap, secret, persistentVolumeClaim and emptyDir is required"
type PodVolume struct {
	// name is the name by which volumeMounts refer to the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="write a name in lower-case letters, digits and hyphens"
	// +required
	Name string `json:"name"`

	// configMap names a ConfigMap in the same namespace, each key of which is a file.
	// +optional
	ConfigMap *ObjectReference `json:"configMap,omitempty"`

	// secret names a Secret in the same namespace, each key of which is a file.
	// +optional
	Secret *ObjectReference `json:"secret,omitempty"`

	// persistentVolumeClaim names a PersistentVolumeClaim in the same namespace.
	// +optional
	PersistentVolumeClaim *VolumeClaimReference `json:"persistentVolumeClaim,omitempty"`

	// emptyDir is a folder that is empty at first and deleted with the pod.
	// +optional
	EmptyDir *EmptyFolder `json:"emptyDir,omitempty"`
}

// EmptyFolder is a folder of a pod.
type EmptyFolder struct {
	// sizeLimit is the maximum size of the folder. A pod that exceeds it is evicted. If unset, the
	// node's disk is the limit.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
}

// PodVolumeMount is where a container sees a volume.
type PodVolumeMount struct {
	// name is the name of the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +required
	Name string `json:"name"`

	// mountPath is the absolute path of the volume in the container, without "..".
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$')`,message="write an absolute path of letters, digits, dots, underscores and hyphens, without a part that begins with a dot"
	// +required
	MountPath string `json:"mountPath"`

	// subPath is a path in the volume to mount instead of its root, without "..".
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$')`,message="write a relative path of letters, digits, dots, underscores and hyphens, without a part that begins with a dot"
	// +optional
	SubPath string `json:"subPath,omitempty"`

	// readOnly prevents the container from writing to the volume. Defaults to false; ConfigMaps and
	// Secrets are always read-only.
	// +optional
	ReadOnly *bool `json:"readOnly,omitempty"`
}
