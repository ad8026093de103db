package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/manifest"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/scenarios"
)

// finding is the result of one check.
type finding struct {
	Area  string `json:"area"`
	What  string `json:"what"`
	Level string `json:"level"`
	Found string `json:"found"`
	// Advice is the next step, "" if nothing is wrong.
	Advice string `json:"advice,omitempty"`
}

func newOK(found string) finding { return finding{Level: view.LevelOK, Found: found} }

func newNote(found, advice string) finding {
	return finding{Level: view.LevelNote, Found: found, Advice: advice}
}

func newBad(found, advice string) finding {
	return finding{Level: view.LevelBad, Found: found, Advice: advice}
}

// checkup collects the results of the checks.
type checkup []finding

func (c *checkup) addFinding(area, what string, f finding) {
	f.Area, f.What = area, what
	*c = append(*c, f)
}

// NewDoctorCommand returns the command that checks this machine and its cluster.
func NewDoctorCommand() *cobra.Command {
	var from Flags
	var tried models
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and its cluster, and print what to do",
		Args:  cobra.NoArgs,
	}
	cli.SetHelp(cmd, "doctor")
	from.Add(cmd)
	tried.addFlags(cmd.Flags())
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "markdown")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var c checkup
		c.checkMachine()
		c.checkModels(cmd.Context(), &tried, cmd.ErrOrStderr())
		if from.Asked() || !tried.namesModel() {
			c.checkCluster(cmd.Context(), &from)
		} else {
			c.addFinding("cluster", "cluster", newNote("not checked, because a model is named",
				"name the cluster too, with --context or -n"))
		}
		if err := printCheckup(cmd.OutOrStdout(), output, c,
			output.Name == "table" && view.HasColours(cmd.OutOrStdout())); err != nil {
			return err
		}
		for _, f := range c {
			if f.Level == view.LevelBad {
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

// uiPort is where csenv ui shows its pages by default.
const uiPort = 8400

func (c *checkup) checkMachine() {
	add := func(what string, f finding) { c.addFinding("machine", what, f) }
	add("csenv", newOK(fmt.Sprintf("%s, %s, %s/%s, %d CPUs", cli.Version, runtime.Version(), runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU())))
	limit, err := cli.OpenFiles()
	found := fmt.Sprintf("a process may open %d", limit)
	switch {
	case err != nil:
		add("open files", newNote(err.Error(), ""))
	case limit < leastFiles:
		add("open files", newBad(found, "raise the limit before serving or playing many sessions: ulimit -n 65536"))
	default:
		add("open files", newOK(found))
	}
	for _, port := range []int{v1alpha1.EnvironmentPort, v1alpha1.OperationsPort, uiPort} {
		result := newOK("free")
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it is closed at once
		if err != nil {
			result = newNote("taken", "choose other ports: csenv serve has --addr and --ops-addr, csenv ui --listen")
		} else {
			_ = listener.Close()
		}
		add(fmt.Sprintf("port %d", port), result)
	}
	if catalog, err := scenarios.LoadPublic(); err != nil {
		add("scenarios", newBad(err.Error(), "build csenv again"))
	} else {
		add("scenarios", newOK(fmt.Sprintf("%d tickets and %d workflows, %s", len(catalog.Tickets()),
			len(catalog.Workflows()), view.ShortDigest(catalog.Digest()))))
	}
	for _, name := range []string{envvars.AgentKey, envvars.JudgeKey} {
		result := newOK("set")
		if os.Getenv(name) == "" {
			result = newNote("not set", "set it if the model endpoint requires a key")
		}
		add(name, result)
	}
}

func (c *checkup) checkCluster(ctx context.Context, from *Flags) {
	add := func(what string, f finding) { c.addFinding("cluster", what, f) }
	fault := newBad
	if !from.Asked() {
		fault = newNote // a machine that plays needs no cluster
	}
	connected, err := from.Connect()
	switch {
	case errors.Is(err, ErrNoCluster):
		add("kubeconfig", newNote("none", "set --kubeconfig or $KUBECONFIG to check a cluster"))
		return
	case err != nil:
		add("kubeconfig", fault(err.Error(), "correct the file, or name another with --kubeconfig or $KUBECONFIG; "+
			"csenv eval and stored runs need none"))
		return
	}
	add("kubeconfig", newOK(fmt.Sprintf("%s, namespace %s", connected.config.Host, connected.Namespace)))
	var server version.Info
	answer, err := connected.core.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(answer, &server)
	}
	if err != nil {
		add("API server", fault(err.Error(), "check that the cluster runs and that the kubeconfig's context is "+
			"right; csenv eval and stored runs need none"))
		return
	}
	add("API server", newOK(server.GitVersion))
	connected.checkRunners(ctx, add)
	if connected.checkDefinitions(ctx, add) {
		connected.checkOperator(ctx, add)
		connected.checkPools(ctx, add)
		connected.checkRuns(ctx, add)
	}
}

// releaseRunners is the command that has pods of runs deleted, as docs/install.md and the chart's
// notes have it: it removes csenv's finalizer and leaves the others.
const releaseRunners = `kubectl get pods --all-namespaces --no-headers ` +
	`-l app.kubernetes.io/managed-by=csenv,app.kubernetes.io/component=runner ` +
	`-o custom-columns=:metadata.namespace,:metadata.name | xargs -rn2 sh -c 'kubectl patch pod -n $0 $1 ` +
	`-p "{\"metadata\":{\"\$deleteFromPrimitiveList/finalizers\":[\"csenv.dev/summary\"]}}"'`

// releaseTime is how long an operator may take to remove the finalizer of a pod that is deleted.
const releaseTime = 10 * time.Minute

// checkRunners reports pods of runs that aren't deleted, because no operator removes their
// finalizer.
func (c *Connection) checkRunners(ctx context.Context, add func(string, finding)) {
	list := &corev1.PodList{}
	runners := labels.Set{v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue,
		v1alpha1.LabelComponent: v1alpha1.ComponentRunner}
	if c.List(ctx, list, "", runners.String()) != nil {
		return // other checks say which rights are missing
	}
	if stuck := countStuck(list.Items, time.Now()); stuck > 0 {
		add("pods of runs", newBad(fmt.Sprintf("%s can't be deleted: no operator removes the finalizer",
			view.FormatCount(stuck, "pod")), "install csenv again, or: "+releaseRunners))
	}
}

// countStuck counts the pods with csenv's finalizer that should have been deleted long ago.
func countStuck(list []corev1.Pod, now time.Time) (stuck int) {
	for i := range list {
		deleted := list[i].DeletionTimestamp
		if deleted != nil && now.Sub(deleted.Time) > releaseTime &&
			slices.Contains(list[i].Finalizers, v1alpha1.FinalizerSummary) {
			stuck++
		}
	}
	return stuck
}

// checkRuns reports the runs that have failed or don't play: the stuck ones first, then the latest.
func (c *Connection) checkRuns(ctx context.Context, add func(string, finding)) {
	list := &v1alpha1.EvaluationRunList{}
	if err := c.listAll(ctx, list); err != nil {
		add("runs", newBad(err.Error(), "request the role csenv-viewer"))
		return
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.EvaluationRun) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	type checked struct {
		what string
		finding
	}
	var runs []checked
	for i := range list.Items {
		if f := checkRun(&list.Items[i]); f.Found != "" {
			runs = append(runs, checked{"run " + list.Items[i].Namespace + "/" + list.Items[i].Name, f})
		}
	}
	slices.SortStableFunc(runs, func(a, b checked) int {
		order := map[string]int{view.LevelBad: 0, view.LevelNote: 1}
		return cmp.Compare(order[a.Level], order[b.Level])
	})
	for _, r := range runs[:min(len(runs), maxNamed)] {
		add(r.what, r.finding)
	}
	summary := fmt.Sprintf("%s, %d to look at", view.FormatCount(len(list.Items), "run"), len(runs))
	if len(runs) > maxNamed {
		add("runs", newNote(summary, "csenv runs lists them"))
		return
	}
	add("runs", newOK(summary))
}

// install is the command that installs this version into a cluster.
const install = "kubectl apply --server-side --force-conflicts -k config/default"

// checkDefinitions compares the definitions in the cluster with this version's, and reports
// whether all are installed.
func (c *Connection) checkDefinitions(ctx context.Context, add func(string, finding)) bool {
	wanted, err := manifest.LoadDefinitions()
	if err != nil {
		add("definitions", newBad(err.Error(), "build csenv again"))
		return false
	}
	all := true
	for _, kind := range view.SortedKeys(wanted) {
		got := &apiextensionsv1.CustomResourceDefinition{}
		err := c.Get(ctx, NameOf(wanted[kind]), got)
		switch {
		case apierrors.IsNotFound(err):
			add(kind, newBad("not installed", install))
			all = false
		case err != nil:
			add(kind, newNote("can't be read: "+err.Error(), "request permission to get customresourcedefinitions"))
		case !equality.Semantic.DeepEqual(got.Spec.Versions[0].Schema, wanted[kind].Spec.Versions[0].Schema):
			add(kind, newBad("installed by another version of csenv",
				"install this version, or use the csenv version of the cluster: "+install))
		default:
			add(kind, newOK("installed, of this version"))
		}
	}
	return all
}

func (c *Connection) checkOperator(ctx context.Context, add func(string, finding)) {
	manager := labels.Set{v1alpha1.LabelName: v1alpha1.LabelNameValue, v1alpha1.LabelComponent: "manager"}.String()
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, "", manager); err != nil {
		add("operator", newNote("can't be listed: "+err.Error(), "request permission to list deployments"))
		return
	}
	if len(list.Items) == 0 {
		add("operator", newBad("not installed", install))
		return
	}
	d := &list.Items[0]
	image := ""
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		image = containers[0].Image
	}
	if d.Status.AvailableReplicas == 0 {
		add("operator", newBad(fmt.Sprintf("%s/%s (%s) has no replica available", d.Namespace, d.Name, image),
			fmt.Sprintf("kubectl -n %s describe deployment %s", d.Namespace, d.Name)))
	} else {
		add("operator", newOK(fmt.Sprintf("%s/%s runs %s", d.Namespace, d.Name, image)))
	}
	services := &corev1.ServiceList{}
	if err := c.List(ctx, services, "", manager); err != nil || len(services.Items) == 0 {
		add("metrics", newNote("no Service for the metrics of the operator",
			"apply config/default, which contains one"))
		return
	}
	add("metrics", newOK(fmt.Sprintf("Service %s/%s", services.Items[0].Namespace, services.Items[0].Name)))
}

// listAll lists the objects of all namespaces, or of the connection's if the user may not.
func (c *Connection) listAll(ctx context.Context, list apiruntime.Object) error {
	if c.List(ctx, list, "", "") == nil {
		return nil
	}
	return c.List(ctx, list, c.Namespace, "")
}

func (c *Connection) checkPools(ctx context.Context, add func(string, finding)) {
	list := &v1alpha1.CustomerSupportEnvList{}
	if err := c.listAll(ctx, list); err != nil {
		add("pools", newBad(err.Error(), "request the role csenv-viewer"))
		return
	}
	if len(list.Items) == 0 {
		add("pools", newNote("none", "kubectl apply -f config/samples/support.yaml"))
	}
	for i := range list.Items {
		pool := &list.Items[i]
		what := "pool " + pool.Namespace + "/" + pool.Name
		for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionDegraded} {
			condition := meta.FindStatusCondition(pool.Status.Conditions, kind)
			if condition == nil {
				if kind == v1alpha1.ConditionAvailable {
					add(what, newBad("not yet reconciled", "check that the operator runs"))
				}
				continue
			}
			found := condition.Reason + ": " + condition.Message
			switch good := (condition.Status == "True") == (kind == v1alpha1.ConditionAvailable); {
			case good && kind == v1alpha1.ConditionAvailable:
				add(what, newOK(found))
			case !good && pool.Spec.OperatingMode == v1alpha1.SuspendedMode:
				add(what, newNote(found, ""))
			case !good:
				add(what, newBad(found, fmt.Sprintf("kubectl -n %s describe cse %s", pool.Namespace, pool.Name)))
			}
		}
	}
}

func printCheckup(w io.Writer, f *view.Format, c checkup, coloured bool) error {
	s := view.Section{Header: []string{"", "what", "found", "to do"}, Painted: true}
	for _, d := range c {
		s.Rows = append(s.Rows, []string{view.ColourOf(coloured, d.Level), d.What, strings.TrimSpace(d.Found),
			d.Advice})
	}
	return f.Print(w, view.Result{Value: c, Document: view.Document{Sections: []view.Section{s}}})
}
