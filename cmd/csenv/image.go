//go:build image

package main

import (
	"github.com/csenv/csenv/cmd/envserver/serve"
	"github.com/csenv/csenv/cmd/manager/operator"
	"github.com/csenv/csenv/cmd/runner/shard"
)

// The image has one file for all programs, because they share most of their code, and links to it
// with their names.
func init() {
	programs = map[string]func(version string){
		"envserver": serve.Main, "manager": operator.Main, "runner": shard.Main,
	}
}
