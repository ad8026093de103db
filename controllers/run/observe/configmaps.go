package observe

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// keptContents is the number of ConfigMaps whose contents are kept, each of at most maxKept
	// bytes.
	keptContents = 64
	maxKept      = 256 << 10
)

// Contents are ConfigMaps by their version. They must not be changed.
type Contents = lru.Cache[version, *corev1.ConfigMap]

type version struct {
	key      types.NamespacedName
	uid      types.UID
	resource string
}

func NewContents() *Contents {
	kept, err := lru.New[version, *corev1.ConfigMap](keptContents)
	if err != nil {
		panic(err) // the number isn't positive
	}
	return kept
}

// readConfigMap reads a ConfigMap that the cache has. The cache holds only metadata, because users
// may create any number of ConfigMaps with our labels. The contents that were read last are kept,
// so that the passes over a run don't read them again.
func (r *Reader) readConfigMap(ctx context.Context, key types.NamespacedName, object *corev1.ConfigMap) error {
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := r.Metadata.Get(ctx, key, known); err != nil {
		return err
	}
	if kept, ok := r.Contents.Get(version{key, known.UID, known.ResourceVersion}); ok {
		*object = *kept
		return nil
	}
	if err := r.Direct.Get(ctx, key, object); err != nil {
		return err
	}
	if object.Size() <= maxKept {
		r.Contents.Add(version{key, object.UID, object.ResourceVersion}, object)
	}
	return nil
}
