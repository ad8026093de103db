package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// poolView is the JSON output of env status for a pool.
type poolView struct {
	Name     string                            `json:"name"`
	State    string                            `json:"state"`
	Message  string                            `json:"message"`
	Endpoint string                            `json:"endpoint"`
	Status   v1alpha1.CustomerSupportEnvStatus `json:"status"`
	Servers  []serverView                      `json:"servers"`

	ready bool // the status of condition Ready
}

type serverView struct {
	Pod   string `json:"pod"`
	Phase string `json:"phase"`
	Ready bool   `json:"ready"`
	// Report is nil if it can't be read: Error is the reason.
	Report *score.Report `json:"report,omitempty"`
	Error  string        `json:"error,omitempty"`
}

func newEnvStatusCommand() *cobra.Command {
	var from Flags
	cmd := &cobra.Command{
		Use:               "status [POOL...]",
		Short:             "Show the sessions of a pool, server by server",
		ValidArgsFunction: from.Complete(&v1alpha1.CustomerSupportEnvList{}),
	}
	cli.SetHelp(cmd, "env-status")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "markdown")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		c, err := from.Connect()
		if err != nil {
			return err
		}
		pools, err := c.viewPools(cmd.Context(), names)
		if err != nil {
			return err
		}
		err = output.Print(cmd.OutOrStdout(), view.Result{Value: pools, Document: poolDocument(pools)})
		if err == nil && slices.ContainsFunc(pools, func(p poolView) bool { return !p.ready }) {
			return cli.ErrOutcome
		}
		return err
	}
	return cmd
}

func (c *Connection) viewPools(ctx context.Context, names []string) ([]poolView, error) {
	list := &v1alpha1.CustomerSupportEnvList{}
	if err := c.List(ctx, list, c.Namespace, ""); err != nil {
		return nil, ExplainError(err, "listing pools")
	}
	var views []poolView
	for i := range list.Items {
		pool := &list.Items[i]
		if len(names) > 0 && !slices.Contains(names, pool.Name) {
			continue
		}
		shown, err := c.viewPool(ctx, pool)
		if err != nil {
			return nil, err
		}
		views = append(views, shown)
	}
	if len(views) < max(len(names), 1) {
		known := view.MapItems(list.Items, func(p v1alpha1.CustomerSupportEnv) string { return p.Name })
		if len(known) == 0 {
			return nil, fmt.Errorf("there is no pool in namespace %s: choose another namespace with -n, or create one "+
				"with `kubectl apply -f config/samples/support.yaml`", c.Namespace)
		}
		return nil, fmt.Errorf("there is no such pool in namespace %s: choose one of %s, or another namespace with -n",
			c.Namespace, strings.Join(known, ", "))
	}
	return views, nil
}

func (c *Connection) viewPool(ctx context.Context, pool *v1alpha1.CustomerSupportEnv) (poolView, error) {
	shown := poolView{Name: pool.Name, State: "Pending", Message: "The operator hasn't seen the pool yet.",
		Endpoint: pool.Status.Endpoint, Status: pool.Status, Servers: []serverView{}}
	if ready := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		shown.State, shown.Message = ready.Reason, ready.Message
		shown.ready = ready.Status == metav1.ConditionTrue
	}
	servers, err := c.listServers(ctx, NameOf(pool))
	if err != nil {
		return shown, err
	}
	token := ""
	secrets, err := c.keyReader().Secrets(ctx, NameOf(pool), pool.Status.LedgerPublicKey)
	if err == nil {
		token = secrets.Operations
	}
	for i := range servers {
		shown.Servers = append(shown.Servers, c.viewServer(ctx, &servers[i], token, err))
	}
	return shown, nil
}

// listServers lists the pods of a pool, ordered by name.
func (c *Connection) listServers(ctx context.Context, pool types.NamespacedName) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.List(ctx, list, pool.Namespace, labels.FormatLabels(pods.Selector(pool.Name))); err != nil {
		return nil, ExplainError(err, "listing the servers of pool "+pool.Name)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// keyReader returns a reader of pools' ledger keys.
func (c *Connection) keyReader() *keys.Reader {
	return keys.NewReader(func(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		return secret, c.Get(ctx, name, secret)
	})
}

// statsTimeout bounds the request to one server.
const statsTimeout = 5 * time.Second

// viewServer reads a server's report, unless keyErr says why there is no token for it.
func (c *Connection) viewServer(ctx context.Context, pod *corev1.Pod, token string, keyErr error) serverView {
	shown := serverView{Pod: pod.Name, Phase: string(pod.Status.Phase)}
	if !pod.DeletionTimestamp.IsZero() {
		shown.Phase = "Terminating"
	}
	for _, condition := range pod.Status.Conditions {
		shown.Ready = shown.Ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	if keyErr != nil {
		shown.Error = keyErr.Error()
		return shown
	}
	port := utilnet.JoinSchemeNamePort("http", pod.Name, strconv.Itoa(v1alpha1.OperationsPort))
	data, err := c.core.Get().Namespace(pod.Namespace).Resource("pods").SubResource("proxy").Name(port).
		Suffix("/stats").SetHeader(protocol.TokenHeader, token).DoRaw(ctx)
	if err == nil {
		shown.Report = &score.Report{}
		err = json.Unmarshal(data, shown.Report)
	}
	if err != nil {
		shown.Report, shown.Error = nil, err.Error()
	}
	return shown
}

func poolDocument(pools []poolView) view.Document {
	d := view.Document{}
	for _, p := range pools {
		total := ptr.Deref(p.Status.Sessions, v1alpha1.SessionCounts{})
		s := view.Section{
			Heading: fmt.Sprintf("%s: %s, %d of %d sessions, %s", p.Name, p.State, total.Active, total.Capacity,
				view.OrDash(p.Endpoint)),
			Header: []string{"server", "state", "ready", "sessions", "capacity", "scored", "failed", "errored",
				"mean score"},
		}
		for _, server := range p.Servers {
			s.Rows = append(s.Rows, server.row())
			if server.Error != "" && s.Note == "" {
				s.Note = "a server could not be read: " + server.Error
			}
		}
		if len(s.Rows) == 0 {
			s.Rows = [][]string{{"no servers", "", "", "", "", "", "", "", ""}}
		}
		if !p.ready {
			s.Note = p.Message
		}
		d.Sections = append(d.Sections, s)
	}
	return d
}

func (v serverView) row() []string {
	row := []string{v.Pod, v.Phase, view.YesNo(v.Ready), "?", "?", "?", "?", "?", "?"}
	if v.Report == nil {
		return row
	}
	if v.Report.Draining {
		row[1] = "Draining"
	}
	e := v.Report.Episodes
	for i, n := range []int64{v.Report.Sessions.Active, v.Report.Sessions.Capacity, e.Scored, e.Failed, e.Errored} {
		row[3+i] = strconv.FormatInt(n, 10) //nolint:gosec // nine cells, five numbers
	}
	row[8] = "-"
	if n := e.Scored + e.Failed; n > 0 {
		row[8] = score.FormatDecimal(e.ScoreSum / n)
	}
	return row
}

// NewEnvCommand returns the command with the subcommands about pools.
func NewEnvCommand() *cobra.Command {
	return cli.GroupCommands(
		&cobra.Command{Use: "env", Aliases: []string{"pool"}, Short: "Show pools of environment servers"},
		newEnvStatusCommand())
}
