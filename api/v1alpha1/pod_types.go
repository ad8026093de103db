package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PodOverrides changes pods that csenv makes. What is set replaces csenv's own choice; labels,
// annotations and env are added to it and can't replace what csenv needs.
type PodOverrides struct {
	// labels are added to the pods. Those of csenv.dev/ and app.kubernetes.io/ are csenv's own.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/') && !k.startsWith('app.kubernetes.io/'))",message="labels of csenv.dev/ and app.kubernetes.io/ are csenv's own: csenv finds its pods by them"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the pods. Those of csenv.dev/ are csenv's own, and none may loosen a
	// container's profile.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('csenv.dev/') && !k.startsWith('app.kubernetes.io/'))",message="annotations of csenv.dev/ and app.kubernetes.io/ are csenv's own"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('container.apparmor.security.beta.kubernetes.io/') && !k.startsWith('container.seccomp.security.alpha.kubernetes.io/') && !k.startsWith('seccomp.security.alpha.kubernetes.io/'))",message="profiles of AppArmor and seccomp can't be set: csenv's pods have those of the container runtime"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// resources of csenv's container, instead of csenv's own requests and limits. The Go runtime's
	// memory limit, GOMEMLIMIT, is nine tenths of limits.memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// env are further environment variables of csenv's container. GOMEMLIMIT, POD_IP, those that
	// begin with CSENV_ and those that stand for fields of the spec are csenv's own.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(v, !v.name.startsWith('CSENV_') && !(v.name in ['GOMEMLIMIT', 'POD_IP', 'JOB_COMPLETION_INDEX']))",message="GOMEMLIMIT, POD_IP, JOB_COMPLETION_INDEX and variables that begin with CSENV_ are csenv's own: set resources.limits.memory for another GOMEMLIMIT"
	// +kubebuilder:validation:XValidation:rule="self.all(v, !(v.name in ['MAX_CONCURRENT_ENVS', 'SESSION_IDLE_TIMEOUT_S', 'OPENENV_MODE']))",message="set sessions.perPod and sessions.idleTimeoutSeconds instead of MAX_CONCURRENT_ENVS and SESSION_IDLE_TIMEOUT_S; OPENENV_MODE can't be set, for runs need every route"
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// nodeSelector is what a node's labels have to hold.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations let the pods run on nodes with such taints.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints of the pods.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`

	// serviceAccountName of the pods. Its token is never mounted: it matters for image pull secrets
	// and admission alone.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// imagePullSecrets of the pods.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}
