// Command envserver serves one customer-support environment over the OpenEnv protocol.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/csenv/csenv/cmd/envserver/serve"
	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains, the second one ends the process.
	context.AfterFunc(ctx, stop)
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	return serve.NewCommand(serve.Setting{
		Use: "envserver", Version: version, LookupEnv: os.LookupEnv, Command: os.Args, Logs: os.Stderr,
		Example: `  envserver --environment ticket
  envserver --environment workflow --addr :8100 --ops-addr :9100 --session-idle-timeout 0 --reward-mode terminal
  envserver --environment ticket --scenarios ./my-catalogue
  envserver --judge llm --judge-base-url https://api.openai.com/v1 --judge-model gpt-4.1-2025-04-14`,
	})
}
