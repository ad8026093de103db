package evaluate

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/envserver/serve"
)

// NewServeCommand returns the command that pods run, with text logs.
func NewServeCommand() *cobra.Command {
	return serve.NewCommand(serve.Setting{
		Use: "serve", Version: cli.Version, LookupEnv: os.LookupEnv, Command: os.Args, Logs: os.Stderr, Text: true,
		Example: `  csenv serve
  csenv serve --environment workflow --addr localhost:8100 --ops-addr localhost:9100
  csenv serve --pack ./acme --split private`,
	})
}
