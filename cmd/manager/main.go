// Command manager runs the operator.
package main

import "github.com/csenv/csenv/cmd/manager/operator"

// version is set by the linker.
var version = "dev"

func main() { operator.Main(version) }
