package serve

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs the program envserver of a version.
func Main(version string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains, the second one ends the process.
	context.AfterFunc(ctx, stop)
	cmd := NewCommand(Setting{
		Use: "envserver", Version: version, LookupEnv: os.LookupEnv, Command: os.Args, Logs: os.Stderr,
		Example: `  envserver --environment ticket
  envserver --environment workflow --addr :8100 --ops-addr :9100 --session-idle-timeout 0 --reward-mode terminal
  envserver --environment ticket --scenarios ./my-catalogue
  envserver --judge llm --judge-base-url https://api.openai.com/v1 --judge-model gpt-4.1-2025-04-14`,
	})
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
