package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespaceList is the value of --watch-namespaces.
type namespaceList []string

func (l *namespaceList) String() string { return strings.Join(*l, ",") }

func (l *namespaceList) Set(value string) error {
	*l = nil
	for name := range strings.SplitSeq(value, ",") {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%q is no name of a namespace: %s", name, strings.Join(problems, "; "))
		}
		*l = append(*l, name)
	}
	return nil
}

// scopedClient reads watched namespaces. Others seem empty to it: the cache answers a read of them
// with an error, so that a run of a pool in another namespace would be tried again forever.
type scopedClient struct {
	client.Client
	watched []string
}

func newScopedClient(watched []string) client.NewClientFunc {
	return func(config *rest.Config, o client.Options) (client.Client, error) {
		all, err := client.New(config, o)
		return scopedClient{all, watched}, err
	}
}

func (c scopedClient) hides(namespace string) bool {
	return namespace != "" && !slices.Contains(c.watched, namespace)
}

func (c scopedClient) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	opts ...client.GetOption) error {
	if c.hides(key.Namespace) {
		return apierrors.NewNotFound(schema.GroupResource{}, key.String())
	}
	return c.Client.Get(ctx, key, object, opts...)
}

func (c scopedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.hides((&client.ListOptions{}).ApplyOptions(opts).Namespace) {
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}
