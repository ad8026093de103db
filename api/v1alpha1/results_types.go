package v1alpha1

// Results configures the storage of episodes: a file of JSON lines for each shard.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.persistentVolumeClaim)",message="exactly one of url and persistentVolumeClaim is required"
// +kubebuilder:validation:XValidation:rule="has(self.url) || !has(self.credentialsSecretRef)",message="credentialsSecretRef requires results.url"
type Results struct {
	// url is a bucket and a prefix: s3://bucket/prefix, gs://bucket/prefix or
	// azblob://container/prefix, with the parameters of docs/results.md, for example
	// ?endpoint=https://minio.example:9000&region=us-east-1. It is printable ASCII without @ and #:
	// other characters are percent-encoded.
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^(s3|gs|azblob)://[!"$-?A-~]+$')`,message="write a URL such as s3://bucket/folder: with s3://, gs:// or azblob://, in ASCII without blanks, user, password and fragment"
	// +optional
	URL string `json:"url,omitempty"`

	// credentialsSecretRef names a Secret in the run's namespace with the store's credentials, for
	// example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Runners read the keys of
	// docs/results.md and ignore others.
	// +optional
	CredentialsSecretRef *ObjectReference `json:"credentialsSecretRef,omitempty"`

	// persistentVolumeClaim names a volume that all runners can write to.
	// +optional
	PersistentVolumeClaim *VolumeClaimReference `json:"persistentVolumeClaim,omitempty"`
}

// VolumeClaimReference names a PersistentVolumeClaim.
type VolumeClaimReference struct {
	// claimName is the name of a PersistentVolumeClaim in the run's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	ClaimName string `json:"claimName,omitempty"`

	// fsGroup is Runners: the volume's files get a group that the runners belong to, 65532 unless
	// template.securityContext sets another; or Unset, for clusters that assign the group
	// themselves and refuse others, as OpenShift does. Defaults to Runners.
	// +kubebuilder:default=Runners
	// +optional
	FSGroup VolumeGroup `json:"fsGroup,omitempty"`
}

// VolumeGroup is the group of a volume's files.
// +kubebuilder:validation:Enum=Runners;Unset
type VolumeGroup string

// The groups of a volume's files.
const (
	RunnersVolumeGroup VolumeGroup = "Runners"
	UnsetVolumeGroup   VolumeGroup = "Unset"
)
