// Command runner plays one shard of an EvaluationRun.
package main

import "github.com/csenv/csenv/cmd/runner/shard"

// version is set by the linker.
var version = "dev"

func main() { shard.Main(version) }
