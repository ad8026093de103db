//go:build unix

package serve

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

const (
	lowestPriority = 19
	// killedFirst is the oom_score_adj of processes that Linux kills first when memory runs out.
	killedFirst = "1000"
)

// runAtLowPriority runs the command in a new process group, because on Linux the priority of a
// process applies to one thread only.
func runAtLowPriority(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// Run the command even if these fail. The file exists only on Linux.
	_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, lowestPriority)
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte(killedFirst), 0)
	return cmd.Wait()
}
