// Command envserver serves one customer-support environment over the OpenEnv protocol.
package main

import "github.com/csenv/csenv/cmd/envserver/serve"

// version is set by the linker.
var version = "dev"

func main() { serve.Main(version) }
