// Command pause is the first process of every pod: it keeps the pod's namespaces open, reaps
// orphaned processes, and exits on SIGTERM.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reapChildren()
	}
}

// reapChildren reaps every child that has ended. In a pod with a shared process namespace, orphans
// become this process's children.
func reapChildren() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}
