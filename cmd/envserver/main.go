// Command envserver serves one customer-support environment over the OpenEnv protocol.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains. From then on a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := newCommand(os.LookupEnv, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// newCommand makes the command. Logs go to the writer.
func newCommand(lookupEnv func(string) (string, bool), logs io.Writer) *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "envserver",
		Short: "Serve a customer-support environment over the OpenEnv protocol",
		Long: `Serve a customer-support environment over the OpenEnv protocol.

Agents and trainers connect to --addr with any OpenEnv client (WebSocket /ws; HTTP /health, /metadata, /schema, /openapi.json, /reset, /step, /state), or with any
MCP client at /mcp. GET /docs lists the routes.
The operator, the kubelet and Prometheus read /readyz, /stats and /metrics on --ops-addr.

On SIGTERM or an interrupt the server refuses new sessions, lets the running ones end, and exits when the last has ended or --drain-timeout is over.
A second signal ends it at once.

The environment variables MAX_CONCURRENT_ENVS, SESSION_IDLE_TIMEOUT_S and OPENENV_MODE stand for --max-sessions, --session-idle-timeout and --mode; a flag that is
given wins. POD_IP is this server's own address among --peers. CSENV_JUDGE_API_KEY holds the key of the judge's endpoint.`,
		Example: `  envserver --environment ticket
  envserver --environment workflow --addr :8100 --ops-addr :9100 --session-idle-timeout 0 --reward-mode terminal
  envserver --environment ticket --scenarios ./my-catalogue
  envserver --judge llm --judge-base-url https://api.openai.com/v1 --judge-model gpt-4.1-2025-04-14 --judge-api-key-file /secrets/judge/key`,
		Version: version, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.fromEnvironment(cmd.Flags(), lookupEnv); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), o, logs)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}
