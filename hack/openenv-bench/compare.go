package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/load"
)

// row is the result of one server with one number of sessions.
type row struct {
	server string
	asked  int
	load.Result
	// idle and memory are resident bytes: before the first session, and the maximum during the
	// measurement.
	idle, memory int64
	// cpu is the server's processor time per step.
	cpu time.Duration
	err error
}

// compareServers measures every server with every number of sessions. If a server fails, its row
// contains the error.
func compareServers(ctx context.Context, o options, sizes []int, progress io.Writer) ([]row, error) {
	var rows []row
	total, began := len(sizes)*len(o.servers), time.Now()
	for _, size := range sizes {
		for _, server := range o.servers {
			fmt.Fprintf(progress, "==> %d of %d, after %v: %s, %d sessions\n", len(rows)+1, total,
				time.Since(began).Round(time.Second), server, size)
			r, err := measureServer(ctx, server, size, o.duration, progress)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
			fmt.Fprintf(progress, "    %s\n", summariseRow(r))
		}
	}
	return rows, nil
}

// progressEvery is the number of progress reports, one per second, for each one that is printed.
const progressEvery = 5

func measureServer(ctx context.Context, server string, sessions int, duration time.Duration,
	progress io.Writer) (row, error) {
	p, err := startServer(ctx, server, progress)
	if err != nil {
		return row{}, err
	}
	defer p.Kill()
	before, err := p.usage()
	if err != nil {
		return row{}, err
	}
	w := watcher{row: row{server: server, asked: sessions, idle: before.memory}, process: p, progress: progress}
	cfg := load.Config{URL: p.url, Sessions: sessions, Duration: duration, Reset: resetFor(server), Seed: firstSeed,
		Actions: actionsFor(server), Progress: w.look}
	w.Result, w.err = load.Run(ctx, cfg)
	if ctx.Err() != nil {
		return row{}, ctx.Err()
	}
	return w.row, nil
}

// watcher reads a server's resource usage while it is measured.
type watcher struct {
	row
	process  *server
	progress io.Writer
	looks    int
	// steps and spent are the values of the first reading during the steps.
	steps int64
	spent time.Duration
}

func (w *watcher) look(now load.Progress) {
	if w.looks++; w.looks%progressEvery == 0 {
		fmt.Fprintf(w.progress, "    %s: %d sessions, %d steps, %d failed\n", now.Phase, now.Sessions, now.Steps,
			now.Failed)
	}
	u, err := w.process.usage()
	if err != nil {
		return // usage is not available
	}
	w.memory = max(w.memory, u.memory)
	switch {
	case now.Phase != "step":
	case w.spent == 0:
		w.steps, w.spent = now.Steps, u.cpu
	case now.Steps > w.steps:
		w.cpu = (u.cpu - w.spent) / time.Duration(now.Steps-w.steps)
	}
}

// firstSeed is the seed of the first episode; each has its own.
const firstSeed = 1

// resetFor returns the reset of every episode. The default task of tickets is ticket-classify.
func resetFor(server string) json.RawMessage {
	switch server {
	case csenvNoSearch:
		return json.RawMessage(`{"task":"ticket-resolve"}`)
	case csenvWorkflow:
		return json.RawMessage(`{"task":"refund"}`)
	}
	return nil
}

// actionsFor returns the steps of an episode: a short sentence for the echo servers, a search of
// the knowledge base or a label for the tickets, and a look-up for the workflows.
func actionsFor(server string) []json.RawMessage {
	switch server {
	case csenvTicket, officialTicket, officialTicketWorkers:
		search := json.RawMessage(`{"action_type":"search_knowledge_base","query":"refund"}`)
		return []json.RawMessage{search, search, search}
	case csenvNoSearch:
		return slices.Repeat([]json.RawMessage{json.RawMessage(`{"action_type":"classify","category":"billing"}`)}, 9)
	case csenvWorkflow:
		return slices.Repeat([]json.RawMessage{json.RawMessage(
			`{"action_type":"check_order_status","payload":{"order_id":"LD-1048"}}`)}, 9)
	case official, officialWorkers:
		return slices.Repeat([]json.RawMessage{json.RawMessage(`{"message":"How are you?"}`)}, 100)
	}
	return slices.Repeat([]json.RawMessage{json.RawMessage(`{"action_type":"say","message":"How are you?"}`)}, 100)
}

func summariseRow(r row) string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%.0f steps/s, p50 %v, p99 %v, %v of the server's processor time for a step, connect p99 %v, "+
		"%s for a session, failures: %s",
		r.StepsPerSecond(), r.Step.P50, r.Step.P99, r.cpu, r.Connect.P99, r.memoryOfOne(), formatCauses(r.Failures))
}

// manySessions is the minimum number of sessions at which the memory of a session exceeds the noise
// of garbage collection.
const manySessions = 1000

// memoryOfOne returns perSession as text.
func (r row) memoryOfOne() string {
	if r.asked < manySessions {
		return "–"
	}
	return fmt.Sprintf("%.1f KiB", r.perSession())
}

// perSession returns the resident memory per session, in KiB.
func (r row) perSession() float64 {
	return float64(r.memory-r.idle) / 1024 / float64(max(r.Sessions, 1))
}

// kinds are the kinds of steps whose cost beside the bare echo is shown.
var kinds = []struct{ name, server string }{
	{"echo", csenvEcho}, {"ticket, with a search", csenvTicket}, {"ticket, without a search", csenvNoSearch},
	{"workflow", csenvWorkflow},
}

// findRow returns the row of a server with that number of sessions, or nil if it wasn't measured.
func findRow(rows []row, server string, asked int) *row {
	i := slices.IndexFunc(rows, func(r row) bool {
		return r.server == server && r.asked == asked && r.err == nil &&
			r.Steps > 0
	})
	if i < 0 {
		return nil
	}
	return &rows[i]
}

func formatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

func formatCauses(failures map[string]int) string {
	if len(failures) == 0 {
		return "0"
	}
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(failures)) {
		parts = append(parts, fmt.Sprintf("%d: %s", failures[cause], cause))
	}
	return strings.Join(parts, "; ")
}
