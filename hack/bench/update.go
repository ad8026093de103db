package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/prometheus/procfs"
)

// update is a measurement of many sessions, which play episodes with a pause between messages as an
// agent's model makes it, while all servers are replaced one after the other.
type update struct {
	options

	pool    *pool
	clients *clients
	rows    []table.Row
}

func (u *update) row(name, format string, args ...any) {
	u.rows = append(u.rows, table.Row{name, fmt.Sprintf(format, args...)})
	u.tell("  %s: %s", name, fmt.Sprintf(format, args...))
}

func measureUpdate(ctx context.Context, o options) (blocks []block, err error) {
	servers, sessions := o.servers, 102_000
	if len(o.sessions) > 0 {
		sessions = slices.Max(o.sessions)
	}
	if servers < 1 || sessions < servers {
		return nil, errors.New("update needs at least one server, and a session for each")
	}
	if o.drain < 2*episodeTime(o.pause) {
		return nil, fmt.Errorf("--drain %v is shorter than two episodes of %v: sessions end in its second half only",
			o.drain, episodeTime(o.pause))
	}
	if err := prepareHost(o, (sessions+servers-1)/servers, sessions, servers); err != nil {
		return nil, err
	}
	binary, remove, err := buildServer(ctx, o)
	if err != nil {
		return nil, err
	}
	defer remove()
	u := &update{options: o}
	if u.pool, err = startPool(ctx, o, binary, servers); err != nil {
		return nil, err
	}
	defer u.pool.kill()
	if u.clients, err = startClients(ctx, o, servers); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, u.clients.close()) }()
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return u.open(ctx, servers, sessions) }, u.settleDown, u.replaceAll, u.end,
	} {
		if err := u.clients.during(ctx, step); err != nil {
			return nil, err
		}
	}
	about := fmt.Sprintf("%s. Every process may have %d open files.", describeMachine(), o.files)
	return []block{{"machine", about}, tableBlock("update", table.Row{"what", "measured"}, u.rows)}, nil
}

// open opens all sessions and measures what they take.
func (u *update) open(_ context.Context, servers, sessions int) error {
	idle, err := u.pool.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	opened, err := u.clients.call("Open", func(i int) any {
		o := u.orderFor(i, servers, sessions, u.pool.addresses())
		o.Pause = u.pause
		return o
	})
	if err != nil {
		return err
	}
	u.row("sessions open", "%d of %d, after %v", opened.Open, sessions, time.Since(began).Round(time.Second))
	u.row("connects refused while they were opened", "%d", opened.Refused)
	u.row("connect, p50 and p99", "%s, %s", formatDuration(quantile(opened.Connects, 50)),
		formatDuration(quantile(opened.Connects, 99)))
	used, err := u.pool.usage()
	if err != nil {
		return err
	}
	clients, err := usageOf(func(s procfs.ProcStat) bool { return slices.Contains(u.clients.pids, s.PID) })
	if err != nil {
		return err
	}
	one := float64(max(opened.Open, 1))
	u.row("a session on the server and on the client", "%.1f KiB, %.1f KiB resident", used.minus(idle).memory/one/1024,
		clients.memory/one/1024)
	return nil
}

// settleDown lets the sessions play.
func (u *update) settleDown(ctx context.Context) error {
	before, err := u.pool.usage()
	if err != nil {
		return err
	}
	if _, err := u.clients.call("Begin", withoutArgument); err != nil {
		return err
	}
	sleepContext(ctx, u.settle)
	after, err := u.pool.usage()
	if err != nil {
		return err
	}
	r, err := u.clients.call("Report", withoutArgument)
	u.row("the servers' processor time for a step", "%s",
		formatDuration(after.minus(before).cpu/time.Duration(max(r.Steps, 1))))
	return err
}

// replaceAll replaces the servers one after the other, as a rolling update does.
func (u *update) replaceAll(ctx context.Context) error {
	began, slowest := time.Now(), time.Duration(0)
	for i := range u.pool.servers {
		u.tell("replacing server %d of %d", i+1, len(u.pool.servers))
		started := time.Now()
		if err := u.replace(ctx, i); err != nil {
			return err
		}
		slowest = max(slowest, time.Since(started))
	}
	u.row("servers replaced", "%d in %v, the slowest in %v", len(u.pool.servers), time.Since(began).Round(time.Second),
		slowest.Round(time.Second))
	// The sessions that moved last begin an episode of their own.
	sleepContext(ctx, episodeTime(u.pause))
	return nil
}

// replace starts a server and then ends the one at the place, whose sessions move as their episodes
// end. Only the new one is offered to sessions that connect.
func (u *update) replace(ctx context.Context, place int) error {
	old := u.pool.servers[place]
	fresh, err := u.pool.startOne(ctx)
	if err != nil {
		return err
	}
	u.pool.servers[place] = fresh
	if _, err := u.clients.call("Move", func(int) any { return u.pool.addresses() }); err != nil {
		return errors.Join(err, old.Stop(0))
	}
	const closing = 30 * time.Second // after the drain: closing sockets, and the last ledgers
	return old.StopCleanly(u.drain + closing)
}

// end stops the clients, with what became of the sessions.
func (u *update) end(context.Context) error {
	r, err := u.clients.call("Stop", withoutArgument)
	if err != nil {
		return err
	}
	u.row("answers to messages", "p50 %s, p99 %s", formatDuration(quantile(r.Answers, 50)),
		formatDuration(quantile(r.Answers, 99)))
	u.row("sessions that moved to another server", "%d", r.Moved)
	u.row("sessions lost", "%d; %d were open at the end", r.LostSessions, r.Open)
	u.row("steps, episodes ended, episodes lost", "%d, %d, %d", r.Steps, r.Episodes, r.LostEpisodes)
	u.row("failures by cause", "%s", formatCauses(r.Causes))
	return nil
}
