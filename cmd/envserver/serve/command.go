// Package serve is the command that serves one environment over the OpenEnv protocol: the envserver
// of a pool's pods, and `csenv serve` on a user's machine.
package serve

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
)

// Setting is the difference between the two programs.
type Setting struct {
	// Use is the command's name, and Example shows how it is called.
	Use, Example string
	Version      string
	// LookupEnv reads environment variables.
	LookupEnv func(string) (string, bool)
	// Command is the program's command line, by which it checks changed packs in a separate
	// process, nil to not check them.
	Command []string
	// Logs receives JSON lines or, with Text, plain text.
	Logs io.Writer
	Text bool
}

// NewCommand makes the command. It serves until its context ends, and then drains.
func NewCommand(setting Setting) *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   setting.Use,
		Short: "Serve a customer-support environment over the OpenEnv protocol",
		Long: `Serve a customer-support environment over the OpenEnv protocol.

Agents and trainers connect to --addr with any OpenEnv client (WebSocket /ws; HTTP /health,
/metadata, /schema, /openapi.json, /reset, /step, /state), or with any MCP client at /mcp.
GET /docs lists the routes. The operator, the kubelet and Prometheus read /readyz, /stats and
/metrics on --ops-addr.

On SIGTERM or an interrupt the server refuses new sessions, lets the running ones end, and exits
when the last has ended or --drain-timeout has passed. A second signal ends it at once.

The environment variables MAX_CONCURRENT_ENVS, SESSION_IDLE_TIMEOUT_S, OPENENV_MODE and
ENABLE_WEB_INTERFACE (true, 1 or yes) stand for --max-sessions, --session-idle-timeout, --mode and
--web; flags take precedence. POD_IP is this server's own address among --peers.
CSENV_JUDGE_API_KEY holds the key of the judge's endpoint, CSENV_CUSTOMER_API_KEY that of the
customer's.`,
		Example: setting.Example,
		Version: setting.Version, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.fromEnvironment(cmd.Flags(), setting.LookupEnv); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			if o.check {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(checkPacks(o))
			}
			return runServer(cmd.Context(), o, setting)
		},
	}
	o.addFlags(cmd.Flags())
	if o.personal = setting.Text; o.personal {
		cmd.Flags().StringArrayVar(&o.allowOrigins, "allow-origin", nil, "`origin` of pages that may use the server "+
			"from a browser, such as https://trainer.example; may be repeated. Those of this machine may")
	}
	return cmd
}

// checkPacks reports the packs that a server started now would play.
func checkPacks(o *options) score.Packs {
	catalog, err := loadCatalog(o)
	if err != nil {
		return score.Packs{Error: formatFault(err)}
	}
	// The configured judge is not checked: it may need keys.
	kind, err := kindOf(o, catalog, offline.New())
	if err != nil {
		return score.Packs{Error: formatFault(err)}
	}
	return score.Packs{Digest: kind.ScenarioDigest()}
}
