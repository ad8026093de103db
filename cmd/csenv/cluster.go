package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// clusterFlags choose a cluster and a namespace, by kubectl's rules.
type clusterFlags struct {
	kubeconfig, context, namespace string
}

func (c *clusterFlags) add(cmd *cobra.Command) {
	c.addTo(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		return c.names(cmd.Context(), &corev1.NamespaceList{}), cobra.ShellCompDirectiveNoFileComp
	})
}

func (c *clusterFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster; $KUBECONFIG or "+
		"~/.kube/config by default")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig; its current one by default")
	f.StringVarP(&c.namespace, "namespace", "n", "", "namespace; the context's by default")
}

// cluster is a connection to one.
type cluster struct {
	client.Client
	kube      kubernetes.Interface
	config    *rest.Config
	namespace string
}

// errNoCluster means that nothing says where a cluster is.
var errNoCluster = errors.New("no cluster is configured: point --kubeconfig or $KUBECONFIG at a kubeconfig file, or " +
	"read stored runs with --results; `csenv eval` needs no cluster")

// connect reads the kubeconfig. It doesn't call the cluster.
func (c *clusterFlags) connect() (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.context})
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster):
		return nil, errNoCluster
	case err != nil && c.context != "":
		return nil, fmt.Errorf("reading the kubeconfig: %w: `kubectl config get-contexts` lists those that there are",
			err)
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme,
		apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config.UserAgent, config.WarningHandler = "csenv/"+version, rest.NoWarnings{}
	config.Timeout = callTimeout
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, explain(err, "connecting to the cluster")
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &cluster{Client: api, kube: kube, config: config, namespace: cmp.Or(c.namespace, namespace)}, nil
}

// callTimeout bounds one call to the API server.
const callTimeout = 30 * time.Second

// explain wraps an API server's error with what to do about it.
func explain(err error, doing string) error {
	var unreachable *url.Error
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) &&
		strings.Contains(err.Error(), "could not find the requested resource"):
		return fmt.Errorf("%s: this cluster doesn't know csenv: install it with `kubectl apply --server-side -k "+
			"config/default`, or choose another --context", doing)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster doesn't accept your credentials, sign in again or choose another "+
			"--context: %w", doing, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: ask for the role csenv-viewer, or csenv-editor to create runs", doing, err)
	case errors.As(err, &unreachable):
		return fmt.Errorf("%s: the cluster doesn't answer, is it up and is this the right --context? %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// run reads a run of the namespace. Its error says which runs there are.
func (c *cluster) run(ctx context.Context, name string) (*v1alpha1.EvaluationRun, error) {
	run := &v1alpha1.EvaluationRun{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, run)
	switch {
	case err == nil:
		run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), "EvaluationRun"
		return run, nil
	case !apierrors.IsNotFound(err) || strings.Contains(err.Error(), "could not find the requested resource"):
		return nil, explain(err, "reading run "+name)
	}
	return nil, c.noRun(ctx, name)
}

// maxNamed is how many names a message lists.
const maxNamed = 8

func (c *cluster) noRun(ctx context.Context, name string) error {
	list := &v1alpha1.EvaluationRunList{}
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("there is no run %s in namespace %s: choose another one with -n", name, c.namespace)
	}
	var here, elsewhere []string
	for _, run := range list.Items {
		switch {
		case run.Namespace == c.namespace:
			here = append(here, run.Name)
		case run.Name == name:
			elsewhere = append(elsewhere, run.Namespace)
		}
	}
	switch {
	case len(elsewhere) > 0:
		return fmt.Errorf("there is no run %s in namespace %s, but in %s: choose it with -n", name, c.namespace,
			strings.Join(elsewhere, ", "))
	case len(here) == 0:
		return fmt.Errorf(
			"there is no run in namespace %s: choose another one with -n, or create a run with `csenv run`", c.namespace)
	}
	slices.Sort(here)
	more := ""
	if len(here) > maxNamed {
		more, here = fmt.Sprintf(" and %d more", len(here)-maxNamed), here[:maxNamed]
	}
	return fmt.Errorf("there is no run %s in namespace %s: there are %s%s", name, c.namespace, strings.Join(here, ", "),
		more)
}

// runs lists the runs of the namespace that a selector takes, by name.
func (c *cluster) runs(ctx context.Context, selector string) ([]*v1alpha1.EvaluationRun, error) {
	chosen, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("reading -l: %w", err)
	}
	list := &v1alpha1.EvaluationRunList{}
	if err := c.List(ctx, list, client.InNamespace(c.namespace),
		client.MatchingLabelsSelector{Selector: chosen}); err != nil {
		return nil, explain(err, "listing runs")
	}
	runs := make([]*v1alpha1.EvaluationRun, len(list.Items))
	for i := range list.Items {
		runs[i] = &list.Items[i]
	}
	return runs, nil
}

// completionTimeout bounds what somebody waits for after a tab.
const completionTimeout = 3 * time.Second

// names are those of a list's objects, nothing where the cluster doesn't tell.
func (c *clusterFlags) names(ctx context.Context, list client.ObjectList) []string {
	connected, err := c.connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	if err := connected.List(ctx, list, client.InNamespace(connected.namespace)); err != nil {
		return nil
	}
	var names []string
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		if o, ok := object.(metav1.Object); ok {
			names = append(names, o.GetName())
		}
		return nil
	})
	return names
}
