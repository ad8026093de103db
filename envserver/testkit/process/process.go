// Package process starts and stops the programs that the tools in hack measure and test.
package process

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tailLines is the number of log lines in an error.
const tailLines = 15

// Process is a running program.
type Process struct {
	name string
	cmd  *exec.Cmd
	logs logs
	done chan struct{}
	err  error // set before done is closed
}

// logs collects what a program prints.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Start starts a program. Errors contain the name.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.logs, &p.logs
	cmd.WaitDelay = time.Second // for children that keep the output open
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Logs returns everything that the program has printed.
func (p *Process) Logs() string {
	p.logs.mu.Lock()
	defer p.logs.mu.Unlock()
	return p.logs.text.String()
}

func (p *Process) tail() string {
	lines := strings.Split(strings.TrimSpace(p.Logs()), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// Await polls ready until it returns true. It returns an error if the program ends before that, or
// after the timeout.
func (p *Process) Await(ctx context.Context, timeout time.Duration, ready func() bool) error {
	deadline := time.After(timeout)
	for !ready() {
		select {
		case <-p.done:
			return p.exited()
		case <-deadline:
			return fmt.Errorf("%s is not ready after %v:\n%s", p.name, timeout, p.tail())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (p *Process) exited() error {
	return fmt.Errorf("%s exited with status %d:\n%s", p.name, p.cmd.ProcessState.ExitCode(), p.tail())
}

// Stop stops the program with SIGTERM, and kills it after the timeout. It returns an error if the
// program had exited before, or had to be killed.
func (p *Process) Stop(timeout time.Duration) error {
	select {
	case <-p.done:
		return p.exited()
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("%s did not exit within %v of SIGTERM", p.name, timeout)
	}
}

// StopCleanly is like Stop, but also returns an error if the exit status isn't 0.
func (p *Process) StopCleanly(timeout time.Duration) error {
	if err := p.Stop(timeout); err != nil {
		return err
	}
	if p.err != nil {
		return p.exited()
	}
	return nil
}

// Kill kills the program, or its process group if it leads one, and waits until it has ended.
func (p *Process) Kill() {
	pid := p.PID()
	if attributes := p.cmd.SysProcAttr; attributes != nil && attributes.Setpgid {
		pid = -pid
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	<-p.done
}

// FreeAddresses returns n different free addresses of the loopback interface, for programs that get
// their addresses as flags. Their ports are below those that the kernel gives to connections and to
// listeners without a port, so that no other program is given one of them before it is used.
func FreeAddresses(ctx context.Context, n int) ([]string, error) {
	const first, end, maxFailures = 20_000, 30_000, 1_000
	var addresses []string
	for failures := 0; len(addresses) < n; {
		port := first + rand.IntN(end-first) //nolint:gosec // not a secret
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			if failures++; failures == maxFailures {
				return nil, fmt.Errorf("finding a free port: %w", err)
			}
			continue
		}
		defer l.Close() // closed at the end, so that no port is returned twice
		addresses = append(addresses, address)
	}
	return addresses, nil
}
