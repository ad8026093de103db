package main

import (
	"os"

	"github.com/csenv/csenv/cmd/envserver/serve"
	"github.com/spf13/cobra"
)

// newServeCommand is the env server as pods run it, logging for people.
func newServeCommand() *cobra.Command {
	return serve.NewCommand(serve.Setting{
		Use: "serve", Version: version, LookupEnv: os.LookupEnv, Command: os.Args, Logs: os.Stderr, Text: true,
		Example: `  csenv serve
  csenv serve --environment workflow --addr localhost:8100 --ops-addr localhost:9100
  csenv serve --pack ./acme --split private`,
	})
}
