package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/csenv/csenv/envserver/play/load"
	"github.com/csenv/csenv/scenarios"
)

// row is the result of one server with one number of sessions.
type row struct {
	server string
	asked  int
	load.Result
	// idle and memory are resident bytes: before the first session, and the maximum during the
	// measurement.
	idle, memory float64
	// cpu is the server's processor time per step.
	cpu time.Duration
	err error
}

// compareServers measures every server with every number of sessions. If a server fails, its row
// contains the error. Servers of the same tickets must first give the same rewards.
func compareServers(ctx context.Context, o options) ([]block, error) {
	agreed := "not compared"
	if slices.Contains(o.kinds, csenvTicket) && slices.Contains(o.kinds, officialTicket) {
		a, err := agreeOnTickets(ctx, o)
		if err != nil {
			return nil, err
		}
		agreed = a.String()
	}
	requirements, err := os.ReadFile(filepath.Join(upstreamFolder, "requirements.txt"))
	if err != nil {
		return nil, fmt.Errorf("reading the official server's requirements (run this from the checkout's root): %w",
			err)
	}
	var rows []row
	sizes := o.sessions
	if len(sizes) == 0 {
		sizes = []int{1, 100, 400, 2000, 10_000, 19_000}
	}
	for _, size := range sizes {
		for _, server := range o.kinds {
			o.tell("%d of %d: %s, %d sessions", len(rows)+1, len(sizes)*len(o.kinds), server, size)
			r, err := measureServer(ctx, o, server, size)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
			o.tell("  %v", r.cells(rows))
		}
	}
	about := fmt.Sprintf("%s; %s. %v of steps for each row.", describeMachine(),
		formatRequirements(string(requirements)), o.duration)
	return []block{{"machine", about}, targetsOf(rows), sharesOf(rows), tableOf(rows), {"agreement", agreed}}, nil
}

// agreeOnTickets compares csenv's server with the official one that serves the same tickets.
func agreeOnTickets(ctx context.Context, o options) (agreement, error) {
	o.tell("comparing the rewards of %d episodes of %s and %s", sampledEpisodes, csenvTicket, officialTicket)
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return agreement{}, err
	}
	tickets, err := exportTickets(catalog, sampledEpisodes)
	if err != nil {
		return agreement{}, err
	}
	ours, err := startServer(ctx, csenvTicket, o.progress)
	if err != nil {
		return agreement{}, err
	}
	defer ours.Kill()
	theirs, err := startServer(ctx, officialTicket, o.progress)
	if err != nil {
		return agreement{}, err
	}
	defer theirs.Kill()
	return compareEpisodes(ctx, ours.url, theirs.url, tickets.Tickets)
}

// progressEvery is the number of progress reports, one per second, for each one that is printed.
const progressEvery = 5

func measureServer(ctx context.Context, o options, server string, sessions int) (row, error) {
	p, err := startServer(ctx, server, o.progress)
	if err != nil {
		return row{}, err
	}
	defer p.Kill()
	before, err := p.usage()
	if err != nil {
		return row{}, err
	}
	w := watcher{row: row{server: server, asked: sessions, idle: before.memory}, process: p, tell: o.tell}
	cfg := load.Config{URL: p.url, Sessions: sessions, Duration: o.duration, Reset: resetFor(server), Seed: firstSeed,
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
	process *server
	tell    func(format string, args ...any)
	looks   int
	// steps and spent are the values of the first reading during the steps.
	steps int64
	spent time.Duration
}

func (w *watcher) look(now load.Progress) {
	if w.looks++; w.looks%progressEvery == 0 {
		w.tell("  %s: %d sessions, %d steps, %d failed", now.Phase, now.Sessions, now.Steps, now.Failed)
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

// perSession returns the resident memory per session, in KiB.
func (r row) perSession() float64 {
	return (r.memory - r.idle) / 1024 / float64(max(r.Sessions, 1))
}

// steps are the kinds of steps whose cost beside the bare echo is shown.
var steps = []struct{ name, server string }{
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

// sharesOf shows the steps per second of each kind of step as a share of the bare echo's.
func sharesOf(rows []row) block {
	var shares []table.Row
	for _, kind := range steps {
		cost := "–"
		if r := findRow(rows, kind.server, 100); r != nil {
			cost = formatDuration(r.cpu)
		}
		shares = append(shares, table.Row{kind.name, formatShare(rows, kind.server, 100),
			formatShare(rows, kind.server, 400), cost})
	}
	return tableBlock("steps", table.Row{"step", "100 sessions", "400 sessions", "CPU per step, 100 sessions"}, shares)
}

func formatShare(rows []row, server string, sessions int) string {
	r, echo := findRow(rows, server, sessions), findRow(rows, bare, sessions)
	if r == nil || echo == nil {
		return "not measured"
	}
	return fmt.Sprintf("%.0f %%", 100*r.StepsPerSecond()/echo.StepsPerSecond())
}

func tableOf(rows []row) block {
	cells := make([]table.Row, len(rows))
	for i, r := range rows {
		cells[i] = r.cells(rows)
	}
	return tableBlock("servers", table.Row{"sessions", "server", "open", "steps/s", "ratio", "step p50", "step p99",
		"connect p99", "CPU per step", "memory", "per session", "failures"}, cells)
}

func (r row) cells(rows []row) table.Row {
	if r.err != nil {
		return table.Row{r.asked, r.server, 0, "–", "–", "–", "–", "–", "–", "–", "–", r.err.Error()}
	}
	ratio := "–"
	if o := findRow(rows, referenceServer(r.server), r.asked); o != nil {
		ratio = fmt.Sprintf("%.1f", r.StepsPerSecond()/o.StepsPerSecond())
	}
	return table.Row{r.asked, r.server, r.Sessions, fmt.Sprintf("%.0f", r.StepsPerSecond()), ratio,
		formatDuration(r.Step.P50), formatDuration(r.Step.P99), formatDuration(r.Connect.P99), formatDuration(r.cpu),
		fmt.Sprintf("%.0f MiB", r.memory/(1<<20)), formatMemory(r.memory-r.idle, r.Sessions), formatCauses(r.Failures)}
}

// referenceServer returns the official server that plays the same environment, or the echo.
func referenceServer(server string) string {
	switch server {
	case csenvTicket, officialTicket, officialTicketWorkers:
		return officialTicket
	}
	return official
}

// formatRequirements lists the requirements in one line.
func formatRequirements(requirements string) string {
	var names []string
	for line := range strings.Lines(requirements) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, strings.ReplaceAll(line, "==", " "))
		}
	}
	return strings.Join(names, ", ")
}

// target is a performance target of csenv.
type target struct {
	name, wanted string
	// servers and sessions select the rows that it needs.
	servers  []string
	sessions int
	// judge returns the measured value and reports whether it meets the target.
	judge func(rows []*row) (string, bool)
}

// atLeast compares the steps per second of the first row with the second row's.
func atLeast(least float64, format string, scale float64) func([]*row) (string, bool) {
	return func(rows []*row) (string, bool) {
		ratio := rows[0].StepsPerSecond() / rows[1].StepsPerSecond()
		return fmt.Sprintf(format, ratio*scale), ratio >= least
	}
}

var targets = []target{
	{"steps/s, 100 sessions", "≥ 15 × official", []string{csenvEcho, official}, 100, atLeast(15, "%.1f ×", 1)},
	{"steps/s, 400 sessions", "≥ 20 × official", []string{csenvEcho, official}, 400, atLeast(20, "%.1f ×", 1)},
	{"steps/s, 100 sessions", "≥ 90 % of the bare echo", []string{csenvEcho, bare}, 100, atLeast(0.9, "%.0f %%", 100)},
	{"steps/s, 400 sessions", "≥ 90 % of the bare echo", []string{csenvEcho, bare}, 400, atLeast(0.9, "%.0f %%", 100)},
	{"step p99, 400 sessions", "≤ 1/20 of official", []string{csenvEcho, official}, 400, func(r []*row) (string, bool) {
		ratio := float64(r[1].Step.P99) / float64(r[0].Step.P99)
		return fmt.Sprintf("1/%.1f (%s, %s)", ratio, formatDuration(r[0].Step.P99),
			formatDuration(r[1].Step.P99)), ratio >= 20
	}},
	{"19,000 sessions in one process", "all open, connect p99 < 1 s", []string{csenvEcho}, 19000,
		func(r []*row) (string, bool) {
			p99, failures := r[0].Connect.P99, r[0].Failures
			return fmt.Sprintf("%d open, %s, failures: %s", r[0].Sessions, formatDuration(p99), formatCauses(failures)),
				r[0].Sessions == r[0].asked && len(failures) == 0 && p99 < time.Second
		}},
	{"resident memory of a session, 19,000 sessions", "≤ 24 KiB", []string{csenvEcho}, 19000,
		func(r []*row) (string, bool) {
			return fmt.Sprintf("%.1f KiB", r[0].perSession()), r[0].perSession() <= 24
		}},
}

func targetsOf(rows []row) block {
	var cells []table.Row
	for _, t := range targets {
		measured, met := t.measure(rows)
		cells = append(cells, table.Row{t.name, t.wanted, measured, met})
	}
	return tableBlock("targets", table.Row{"what", "target", "measured", "met"}, cells)
}

func (t target) measure(rows []row) (measured, met string) {
	var needed []*row
	for _, server := range t.servers {
		r := findRow(rows, server, t.sessions)
		if r == nil {
			return "not measured", "–"
		}
		needed = append(needed, r)
	}
	measured, ok := t.judge(needed)
	if ok {
		return measured, "yes"
	}
	return measured, "**no**"
}
