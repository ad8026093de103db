package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PodOverrides changes the pods of servers or runners. A set field replaces the default; labels,
// annotations and env are added and can't replace those that csenv needs.
type PodOverrides struct {
	// labels are added to the pods. The prefixes csenv.dev/ and app.kubernetes.io/ are reserved.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/') && !k.startsWith('app.kubernetes.io/'))",message="the label prefixes csenv.dev/ and app.kubernetes.io/ are reserved"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the pods. The prefix csenv.dev/ is reserved, and none may loosen a
	// container's security profile.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/') && !k.startsWith('app.kubernetes.io/'))",message="the annotation prefixes csenv.dev/ and app.kubernetes.io/ are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('container.apparmor.security.beta.kubernetes.io/') && !k.startsWith('container.seccomp.security.alpha.kubernetes.io/') && !k.startsWith('seccomp.security.alpha.kubernetes.io/'))",message="AppArmor and seccomp profiles can't be set: the pods use those of the container runtime"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// resources replace the requests and limits of csenv's container. GOMEMLIMIT, the memory limit
	// of the Go runtime, is nine tenths of limits.memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// env are additional environment variables of csenv's container. GOMEMLIMIT, POD_IP, names that
	// begin with CSENV_ and those that correspond to fields of the spec are reserved.
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
}
