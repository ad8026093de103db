package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/manifest"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/scenarios"
)

// diagnosis is the result of one check.
type diagnosis struct {
	Area  string `json:"area"`
	What  string `json:"what"`
	Level string `json:"level"`
	Found string `json:"found"`
	// Advice is the next step, "" if nothing is wrong.
	Advice string `json:"advice,omitempty"`
}

// checkup collects the results of the checks.
type checkup []diagnosis

func (c *checkup) add(area, what, level, found, advice string) {
	*c = append(*c, diagnosis{area, what, level, found, advice})
}

func NewDoctorCommand() *cobra.Command {
	var from Flags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and its cluster, and print what to do",
		Args:  cobra.NoArgs,
	}
	cli.Help(cmd, "doctor")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "markdown")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var c checkup
		c.machine()
		c.cluster(cmd.Context(), &from)
		if err := printCheckup(cmd.OutOrStdout(), output, c, view.Colours(cmd.OutOrStdout())); err != nil {
			return err
		}
		for _, d := range c {
			if d.Level == view.LevelBad {
				return cli.ErrOutcome
			}
		}
		return nil
	}
	return cmd
}

// leastFiles is the required limit of open files: two for each session of csenv eval with maximum
// concurrency, and some more.
const leastFiles = 4096

func (c *checkup) machine() {
	const area = "machine"
	c.add(area, "csenv", view.LevelOK, fmt.Sprintf("%s, %s, %s/%s, %d CPUs", cli.Version, runtime.Version(),
		runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU()), "")
	switch limit, err := cli.OpenFiles(); {
	case err != nil:
		c.add(area, "open files", view.LevelNote, err.Error(), "")
	case limit < leastFiles:
		c.add(area, "open files", view.LevelBad, fmt.Sprintf("a process may open %d", limit),
			"raise the limit before serving or playing many sessions: ulimit -n 65536")
	default:
		c.add(area, "open files", view.LevelOK, fmt.Sprintf("a process may open %d", limit), "")
	}
	for _, port := range []int{v1alpha1.EnvironmentPort, v1alpha1.OperationsPort} {
		c.port(port)
	}
	if catalog, err := scenarios.Public(); err != nil {
		c.add(area, "scenarios", view.LevelBad, err.Error(), "build csenv again")
	} else {
		c.add(area, "scenarios", view.LevelOK, fmt.Sprintf("%d tickets and %d workflows, %s", len(catalog.Tickets()),
			len(catalog.Workflows()), view.ShortDigest(catalog.Digest())), "")
	}
	for _, name := range []string{envvars.AgentKey, envvars.JudgeKey} {
		if os.Getenv(name) == "" {
			c.add(area, name, view.LevelNote, "not set", "set it if the model endpoint requires a key")
		} else {
			c.add(area, name, view.LevelOK, "set", "")
		}
	}
}

func (c *checkup) port(port int) {
	what := fmt.Sprintf("port %d", port)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it is closed at once
	if err != nil {
		c.add("machine", what, view.LevelNote, "taken", "choose other ports for csenv serve with --addr and --ops-addr")
		return
	}
	_ = listener.Close()
	c.add("machine", what, view.LevelOK, "free", "")
}

func (c *checkup) cluster(ctx context.Context, from *Flags) {
	const area = "cluster"
	connected, err := from.Connect()
	switch {
	case errors.Is(err, errNoCluster):
		c.add(area, "kubeconfig", view.LevelNote, "none", "set --kubeconfig or $KUBECONFIG to check a cluster")
		return
	case err != nil:
		c.add(area, "kubeconfig", view.LevelBad, err.Error(), "")
		return
	}
	c.add(area, "kubeconfig", view.LevelOK, fmt.Sprintf("%s, namespace %s", connected.config.Host, connected.Namespace),
		"")
	server, err := connected.kube.Discovery().ServerVersion()
	if err != nil {
		c.add(area, "API server", view.LevelBad, err.Error(), "check that the cluster runs and that --context is right")
		return
	}
	c.add(area, "API server", view.LevelOK, server.GitVersion, "")
	if !c.definitions(ctx, connected) {
		return
	}
	c.operator(ctx, connected)
	c.pools(ctx, connected)
}

// install is the command that installs this version into a cluster.
const install = "kubectl apply --server-side --force-conflicts -k config/default"

// definitions compares the definitions in the cluster with those of this version.
func (c *checkup) definitions(ctx context.Context, connected *Connection) bool {
	wanted, err := manifest.Definitions()
	if err != nil {
		c.add("cluster", "definitions", view.LevelBad, err.Error(), "build csenv again")
		return false
	}
	all := true
	for _, kind := range view.SortedKeys(wanted) {
		got := &apiextensionsv1.CustomResourceDefinition{}
		err := connected.Get(ctx, client.ObjectKeyFromObject(wanted[kind]), got)
		switch {
		case client.IgnoreNotFound(err) == nil && err != nil:
			c.add("cluster", kind, view.LevelBad, "not installed", install)
			all = false
		case err != nil:
			c.add("cluster", kind, view.LevelNote, "can't be read: "+err.Error(),
				"request permission to get customresourcedefinitions")
		case !equality.Semantic.DeepEqual(got.Spec.Versions[0].Schema, wanted[kind].Spec.Versions[0].Schema):
			c.add("cluster", kind, view.LevelBad, "installed by another version of csenv",
				"install this version, or use the csenv version of the cluster: "+install)
		default:
			c.add("cluster", kind, view.LevelOK, "installed, of this version", "")
		}
	}
	return all
}

// managerLabels select the objects of the operator.
func managerLabels() client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelNameValue, v1alpha1.LabelComponent: "manager"}
}

func (c *checkup) operator(ctx context.Context, connected *Connection) {
	const area = "cluster"
	list := &appsv1.DeploymentList{}
	switch err := connected.List(ctx, list, managerLabels()); {
	case err != nil:
		c.add(area, "operator", view.LevelNote, "can't be listed: "+err.Error(),
			"request permission to list deployments")
		return
	case len(list.Items) == 0:
		c.add(area, "operator", view.LevelBad, "not installed", install)
		return
	}
	d := &list.Items[0]
	image := ""
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		image = containers[0].Image
	}
	if d.Status.AvailableReplicas == 0 {
		c.add(area, "operator", view.LevelBad, fmt.Sprintf("%s/%s (%s) has no replica available", d.Namespace, d.Name,
			image), fmt.Sprintf("kubectl -n %s describe deployment %s", d.Namespace, d.Name))
	} else {
		c.add(area, "operator", view.LevelOK, fmt.Sprintf("%s/%s runs %s", d.Namespace, d.Name, image), "")
	}
	services := &corev1.ServiceList{}
	if err := connected.List(ctx, services, managerLabels()); err != nil || len(services.Items) == 0 {
		c.add(area, "metrics", view.LevelNote, "no Service for the metrics of the operator",
			"apply config/default, which contains one")
		return
	}
	c.add(area, "metrics", view.LevelOK, fmt.Sprintf("Service %s/%s", services.Items[0].Namespace,
		services.Items[0].Name),
		"")
}

func (c *checkup) pools(ctx context.Context, connected *Connection) {
	list := &v1alpha1.CustomerSupportEnvList{}
	if err := connected.List(ctx, list); err != nil {
		if err = connected.List(ctx, list, client.InNamespace(connected.Namespace)); err != nil {
			c.add("cluster", "pools", view.LevelBad, err.Error(), "request the role csenv-viewer")
			return
		}
	}
	if len(list.Items) == 0 {
		c.add("cluster", "pools", view.LevelNote, "none", "kubectl apply -f config/samples/support.yaml")
	}
	for i := range list.Items {
		pool := &list.Items[i]
		what := "pool " + pool.Namespace + "/" + pool.Name
		for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionDegraded} {
			condition := meta.FindStatusCondition(pool.Status.Conditions, kind)
			good := condition != nil && (condition.Status == "True") == (kind == v1alpha1.ConditionAvailable)
			switch {
			case condition == nil && kind == v1alpha1.ConditionAvailable:
				c.add("cluster", what, view.LevelBad, "not yet reconciled", "check that the operator runs")
			case good && kind == v1alpha1.ConditionAvailable:
				c.add("cluster", what, view.LevelOK, condition.Reason+": "+condition.Message, "")
			case condition != nil && !good && pool.Spec.OperatingMode == v1alpha1.SuspendedMode:
				c.add("cluster", what, view.LevelNote, condition.Reason+": "+condition.Message, "")
			case condition != nil && !good:
				c.add("cluster", what, view.LevelBad, condition.Reason+": "+condition.Message,
					fmt.Sprintf("kubectl -n %s describe cse %s", pool.Namespace, pool.Name))
			}
		}
	}
}

func printCheckup(w io.Writer, f *view.Format, c checkup, coloured bool) error {
	if f.Name == "json" || f.Name == "yaml" {
		return f.Encode(w, c)
	}
	s := view.Section{Header: []string{"", "what", "found", "to do"}, Painted: true}
	for _, d := range c {
		s.Rows = append(s.Rows, []string{view.ColourOf(coloured, d.Level), d.What, strings.TrimSpace(d.Found),
			d.Advice})
	}
	view.Document{Sections: []view.Section{s}}.Print(w, f.Name)
	return nil
}
