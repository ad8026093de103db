package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Object is an object of the cluster.
type Object interface {
	metav1.Object
	runtime.Object
}

// NameOf returns the namespace and the name of an object.
func NameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Client reads and writes objects of the kinds that csenv uses.
type Client interface {
	Get(ctx context.Context, name types.NamespacedName, to Object) error
	// List lists the objects of a namespace, or of all, that match a selector of labels, or all.
	List(ctx context.Context, to runtime.Object, namespace, selector string) error
	Create(ctx context.Context, object Object) error
	// Merge changes an object by a JSON merge patch.
	Merge(ctx context.Context, object Object, patch []byte) error
}

// api is a Client over REST. The usual clients register all kinds of Kubernetes, which would be a
// fifth of the program.
type api struct {
	config *rest.Config
	scheme *runtime.Scheme

	mu     sync.Mutex
	groups map[schema.GroupVersion]rest.Interface
}

func newAPI(config *rest.Config, scheme *runtime.Scheme) *api {
	return &api{config: config, scheme: scheme, groups: map[schema.GroupVersion]rest.Interface{}}
}

// groupClient returns a client of the kinds of a group and version.
func (a *api) groupClient(of schema.GroupVersion) (rest.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.groups[of]; ok {
		return known, nil
	}
	config := rest.CopyConfig(a.config)
	config.GroupVersion, config.APIPath = &of, "/apis"
	if of.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(a.scheme).WithoutConversion()
	made, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	a.groups[of] = made
	return made, nil
}

// objectClient returns a client of the group of an object or a list, and the name of its resource.
func (a *api) objectClient(object runtime.Object) (group rest.Interface, resource string, err error) {
	kinds, _, err := a.scheme.ObjectKinds(object)
	if err != nil {
		return nil, "", err
	}
	kind := kinds[0]
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	group, err = a.groupClient(kind.GroupVersion())
	return group, plural.Resource, err
}

// Get implements Client.
func (a *api) Get(ctx context.Context, name types.NamespacedName, to Object) error {
	group, resource, err := a.objectClient(to)
	if err != nil {
		return err
	}
	return group.Get().NamespaceIfScoped(name.Namespace, name.Namespace != "").Resource(resource).Name(name.Name).
		Do(ctx).Into(to)
}

// List implements Client.
func (a *api) List(ctx context.Context, to runtime.Object, namespace, selector string) error {
	group, resource, err := a.objectClient(to)
	if err != nil {
		return err
	}
	request := group.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource)
	if selector != "" {
		request.Param("labelSelector", selector)
	}
	return request.Do(ctx).Into(to)
}

// Create implements Client.
func (a *api) Create(ctx context.Context, object Object) error {
	group, resource, err := a.objectClient(object)
	if err != nil {
		return err
	}
	return group.Post().Namespace(object.GetNamespace()).Resource(resource).Body(object).Do(ctx).Into(object)
}

// Merge implements Client.
func (a *api) Merge(ctx context.Context, object Object, patch []byte) error {
	group, resource, err := a.objectClient(object)
	if err != nil {
		return err
	}
	return group.Patch(types.MergePatchType).Namespace(object.GetNamespace()).Resource(resource).Name(object.GetName()).
		Body(patch).Do(ctx).Into(object)
}
