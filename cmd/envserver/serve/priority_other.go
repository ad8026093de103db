//go:build !unix

package serve

import "os/exec"

// runAtLowPriority runs the command: there are no priorities to set here.
func runAtLowPriority(cmd *exec.Cmd) error { return cmd.Run() }
