// Package cluster connects to a cluster and shows its pools and its health.
package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
)

const (
	callTimeout       = 30 * time.Second // of one call to the API server
	completionTimeout = 3 * time.Second  // of the requests of shell completion
)

// Flags select a cluster and a namespace, as in kubectl.
type Flags struct {
	kubeconfig, context, Namespace string
	asked                          bool
}

// Add adds the flags to a command.
func (c *Flags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "`file` with the address and credentials of the cluster; "+
		"$KUBECONFIG or ~/.kube/config by default")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig; the current one by default")
	f.StringVarP(&c.Namespace, "namespace", "n", "", "namespace; the context's by default")
	_ = cmd.RegisterFlagCompletionFunc("namespace", c.Complete(&corev1.NamespaceList{}))
}

// AddCluster adds the flag that asks for the cluster, to a command that reads stores too.
func (c *Flags) AddCluster(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.asked, "cluster", false, "read the runs of the cluster, not those that csenv eval has "+
		"stored; --context, --kubeconfig and -n do it too")
}

// Asked reports whether a flag asks for the cluster.
func (c *Flags) Asked() bool {
	return c.asked || c.kubeconfig != "" || c.context != "" || c.Namespace != ""
}

// Connection is a connection to a cluster.
type Connection struct {
	Client
	// core is for the kinds of Kubernetes' own group.
	core      rest.Interface
	scheme    *runtime.Scheme
	config    *rest.Config
	Namespace string
}

// String names the cluster and the namespace for people.
func (c *Connection) String() string {
	return "the cluster " + c.config.Host + ", namespace " + c.Namespace
}

// ErrNoCluster means that no kubeconfig exists.
var ErrNoCluster = errors.New("no cluster is configured: set --kubeconfig or $KUBECONFIG to a kubeconfig file; " +
	"`csenv eval` needs no cluster")

// Connect reads the kubeconfig. It sends no request.
func (c *Flags) Connect() (*Connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.context})
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster):
		for _, file := range filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)) {
			if _, err := os.Stat(file); err != nil {
				return nil, fmt.Errorf("$KUBECONFIG names %s, which doesn't exist: %w", file, ErrNoCluster)
			}
		}
		return nil, ErrNoCluster
	case err != nil && c.context != "":
		return nil, fmt.Errorf("reading the kubeconfig: %w: `kubectl config get-contexts` lists the contexts", err)
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config.UserAgent, config.WarningHandler = "csenv/"+cli.Version, rest.NoWarnings{}
	config.Timeout = callTimeout
	api := newAPI(config, scheme)
	core, err := api.groupClient(corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return &Connection{Client: api, core: core, scheme: scheme, config: config,
		Namespace: cmp.Or(c.Namespace, namespace)}, nil
}

// ExplainError wraps an error of the API server with advice.
func ExplainError(err error, doing string) error {
	var unreachable *url.Error
	var distrusted *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) &&
		strings.Contains(err.Error(), "could not find the requested resource"):
		return fmt.Errorf("%s: csenv is not installed in this cluster: install it with "+
			"`kubectl apply --server-side -k config/default`, or choose another --context", doing)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster rejects your credentials: %w: sign in again or choose another "+
			"--context", doing, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: request the role csenv-viewer, or csenv-editor to create runs", doing, err)
	case errors.As(err, &distrusted):
		return fmt.Errorf("%s: the server has a certificate that the kubeconfig doesn't trust: request the cluster's "+
			"kubeconfig anew, for it was made for another cluster or has expired: %w", doing, err)
	case errors.As(err, &unreachable):
		return fmt.Errorf("%s: the cluster doesn't answer: check that it runs and that the kubeconfig's context is "+
			"right: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Complete returns a completion of the names of objects.
func (c *Flags) Complete(list runtime.Object) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return c.listNames(cmd.Context(), list), cobra.ShellCompDirectiveNoFileComp
	}
}

// listNames returns the names of a list's objects, nil if the cluster can't be read.
func (c *Flags) listNames(ctx context.Context, list runtime.Object) []string {
	connected, err := c.Connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	if err := connected.List(ctx, list, connected.Namespace, ""); err != nil {
		return nil
	}
	var names []string
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		names = append(names, object.(metav1.Object).GetName())
		return nil
	})
	return names
}
