package children

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
)

// appliedHash shows that an applied field is no longer intended, which the live object alone can't
// show.
const appliedHash = "csenv.dev/applied-hash"

// The kinds of a pool's objects.
const (
	KindDeployment    = "Deployment"
	KindService       = "Service"
	KindBudget        = "PodDisruptionBudget"
	KindNetworkPolicy = "NetworkPolicy"
)

// ID identifies an object of a pool.
type ID struct{ Kind, Name string }

func (id ID) String() string { return id.Kind + " " + id.Name }

// Pool is what the objects are built from.
type Pool struct {
	Env      *v1alpha1.CustomerSupportEnv
	Image    string // of the servers
	Operator string // namespace of the operator, "" for one outside of the cluster
	// NoSurge updates one server at a time, which the pool then lacks, instead of adding new ones
	// first.
	NoSurge bool
}

// Child is an object of a pool. Its configuration is nil if the pool must not have it.
type Child struct {
	ID     ID
	Config runtime.ApplyConfiguration
}

// chooseServiceType returns the type of the Service of clients.
func chooseServiceType(env *v1alpha1.CustomerSupportEnv) corev1.ServiceType {
	return corev1.ServiceType(cmp.Or(env.Spec.Service.Type, v1alpha1.ClusterIPService))
}

// LabelObject returns the labels of a pool's objects.
func LabelObject(env string) map[string]string {
	labels := pods.Selector(env)
	labels[v1alpha1.LabelInstance] = env
	labels[v1alpha1.LabelManagedBy] = v1alpha1.LabelManagedByValue
	return labels
}

// addOwner adds the pool's labels, the owner and the hash to an apply configuration.
func addOwner[T interface {
	WithLabels(labels map[string]string) T
	WithAnnotations(annotations map[string]string) T
	WithOwnerReferences(owners ...*metav1ac.OwnerReferenceApplyConfiguration) T
}](env *v1alpha1.CustomerSupportEnv, config T) T {
	owner := metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("CustomerSupportEnv").
		WithName(env.Name).
		WithUID(env.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
	config = config.WithLabels(LabelObject(env.Name)).WithOwnerReferences(owner)
	return config.WithAnnotations(map[string]string{appliedHash: hashJSON(config)})
}

// convertConfig converts a Kubernetes type into its apply configuration T, which has the same JSON.
func convertConfig[T any](value any) *T {
	config := new(T)
	if err := json.Unmarshal(EncodeJSON(value), config); err != nil {
		panic(fmt.Sprintf("converting a %T into an apply configuration: %v", value, err))
	}
	return config
}

// hashJSON returns a hash of a value's JSON, in the order of the type's fields.
func hashJSON(value any) string {
	sum := sha256.Sum256(EncodeJSON(value))
	return hex.EncodeToString(sum[:8])
}

// EncodeJSON returns the JSON of a Kubernetes object or apply configuration, which can't fail.
func EncodeJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encoding a %T: %v", value, err))
	}
	return data
}
