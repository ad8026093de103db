package observe

import (
	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
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

// NewContents returns an empty store of contents.
func NewContents() *Contents {
	kept, err := lru.New[version, *corev1.ConfigMap](keptContents)
	if err != nil {
		panic(err) // the number isn't positive
	}
	return kept
}
