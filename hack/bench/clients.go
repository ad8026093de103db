package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// clientCommand makes this program a client, whose Player takes calls on its standard input and
// answers on its standard output.
const clientCommand = "client"

func newClientCommand() *cobra.Command {
	return &cobra.Command{
		Use: clientCommand, Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return servePlayer(cmd.Context()) },
	}
}

// pipes are the two directions of a connection.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// servePlayer returns when the parent has closed the standard input.
func servePlayer(ctx context.Context) error {
	calls := rpc.NewServer()
	if err := calls.Register(newPlayer(ctx)); err != nil {
		return fmt.Errorf("offering a player: %w", err)
	}
	calls.ServeConn(pipes{os.Stdin, os.Stdout})
	return nil
}

// clients are the client processes.
type clients struct {
	options

	calls []*rpc.Client
	pids  []int
	wait  []func() error
}

// startClients starts as many clients. They end with the context.
func startClients(ctx context.Context, o options, n int) (*clients, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	c := &clients{options: o}
	for range n {
		cmd := exec.CommandContext(ctx, self, clientCommand)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("starting a client: %w", err), c.close())
		}
		c.calls = append(c.calls, rpc.NewClient(pipes{out, in}))
		c.pids = append(c.pids, cmd.Process.Pid)
		c.wait = append(c.wait, cmd.Wait)
	}
	return c, nil
}

// call calls a method of all players at the same time, with an argument for each, and adds their
// reports.
func (c *clients) call(method string, argument func(place int) any) (Report, error) {
	reports, errs := make([]Report, len(c.calls)), make([]error, len(c.calls))
	var calling sync.WaitGroup
	for i, client := range c.calls {
		calling.Go(func() { errs[i] = client.Call("Player."+method, argument(i), &reports[i]) })
	}
	calling.Wait()
	sum := Report{}
	for _, r := range reports {
		sum.add(r)
	}
	if err := errors.Join(errs...); err != nil {
		return sum, fmt.Errorf("calling %s of the clients: %w", method, err)
	}
	return sum, nil
}

func withoutArgument(int) any { return 0 }

// during prints progress while something happens.
func (c *clients) during(ctx context.Context, happens func(context.Context) error) error {
	const every = 10 * time.Second
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for sleepContext(watched, every); watched.Err() == nil; sleepContext(watched, every) {
			if r, err := c.call("Report", withoutArgument); err == nil {
				c.tell("  %s", r)
			}
		}
	})
	err := happens(ctx)
	stop()
	watching.Wait()
	return errors.Join(err, ctx.Err())
}

// close ends the clients.
func (c *clients) close() error {
	var errs []error
	for i, client := range c.calls {
		_ = client.Close() // the client then ends, which Wait tells
		errs = append(errs, c.wait[i]())
	}
	c.calls, c.wait = nil, nil
	return errors.Join(errs...)
}

// Order is what a player plays. The seed of each of its episodes is different.
type Order struct {
	Servers  []string // HOST:PORT
	Source   string   // address of this client
	Sessions int
	Seed     int64
	Dialing  int           // concurrent connects
	Pause    time.Duration // between two messages
}

// orderFor is the order of the client at the place. Linux gives the whole of 127.0.0.0/8 to the
// loopback interface.
func (o options) orderFor(place, clients, sessions int, servers []string) Order {
	const seedsPerClient = 1_000_000_000 // more than a client plays
	return Order{Servers: servers, Source: fmt.Sprintf("127.0.2.%d", 1+place),
		Sessions: sessions*(place+1)/clients - sessions*place/clients, Seed: int64(1 + place*seedsPerClient),
		Dialing: o.dialing}
}

func sleepContext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
