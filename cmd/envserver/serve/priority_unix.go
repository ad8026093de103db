//go:build unix

package serve

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// leastPriority lets everything else go first.
const leastPriority = 19

// killedFirst is the oom_score_adj of Linux' first choice when memory runs out.
const killedFirst = "1000"

// runAtLowPriority runs the command in a process group of its own, whose threads all have the least
// priority: on Linux a process' priority is that of one thread alone. Linux kills it before others
// when memory runs out.
func runAtLowPriority(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// Without it the command takes a processor from the sessions for a second or so: no reason not
	// to run it.
	_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, leastPriority)
	// Any process may be made a likelier victim by its user. There is no such file but on Linux.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte(killedFirst), 0)
	return cmd.Wait()
}
