package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/load"
)

// row is one server under one number of sessions.
type row struct {
	server string
	asked  int
	load.Result
	// idle and memory are resident bytes before the first session and after the last step.
	idle, memory int64
	err          error
}

// compare measures every server under every number of sessions and returns the table. A server that fails under a load has its error in the table: that is a result too.
func compare(ctx context.Context, o options, sizes []int, progress io.Writer) (string, error) {
	var rows []row
	for _, size := range sizes {
		for _, server := range o.servers {
			r, err := measure(ctx, server, size, o.duration, progress)
			if err != nil {
				return "", err
			}
			rows = append(rows, r)
			fmt.Fprintf(progress, "    %s\n", summary(r))
		}
	}
	return tableOf(rows, o.duration), nil
}

func measure(ctx context.Context, server string, sessions int, duration time.Duration, progress io.Writer) (row, error) {
	fmt.Fprintf(progress, "==> %s, %d sessions\n", server, sessions)
	p, err := start(ctx, server, progress)
	if err != nil {
		return row{}, err
	}
	defer p.stop()
	r := row{server: server, asked: sessions}
	if r.idle, err = p.memory(); err != nil {
		return row{}, err
	}
	cfg := load.Config{URL: p.url, Sessions: sessions, Duration: duration, Reset: json.RawMessage(`{"seed":7}`), Actions: actionsFor(server)}
	cfg.Progress = func(now load.Progress) {
		fmt.Fprintf(progress, "    %s: %d sessions, %d steps, %d failed\n", now.Phase, now.Sessions, now.Steps, now.Failed)
		if memory, err := p.memory(); err == nil {
			r.memory = max(r.memory, memory)
		}
	}
	r.Result, r.err = load.Run(ctx, cfg)
	if ctx.Err() != nil {
		return row{}, ctx.Err()
	}
	return r, nil
}

// actionsFor are the steps of an episode: a short sentence for the echoes, a look into the knowledge base for the tickets.
func actionsFor(server string) []json.RawMessage {
	switch server {
	case csenvTicket:
		search := json.RawMessage(`{"action_type":"search_knowledge_base","query":"refund"}`)
		return []json.RawMessage{search, search, search}
	case official, officialWorkers:
		return slices.Repeat([]json.RawMessage{json.RawMessage(`{"message":"How are you?"}`)}, 100)
	}
	return slices.Repeat([]json.RawMessage{json.RawMessage(`{"action_type":"say","message":"How are you?"}`)}, 100)
}

func summary(r row) string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%.0f steps/s, p50 %v, p99 %v", r.StepsPerSecond(), r.Step.P50, r.Step.P99)
}

func tableOf(rows []row, duration time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Go %s, %d processors, %v of steps for each row; the load generator runs on the same processors.\n\n", runtime.Version(), runtime.NumCPU(), duration)
	b.WriteString("| sessions | server | open | steps/s | ratio | step p50 | step p99 | connect p99 | memory | per session | failures |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		b.WriteString(line(r, rows))
	}
	b.WriteString("\n*Ratio* is to the official server with one worker under the same number of sessions. *Memory* is the most resident memory of the server's processes while it was measured, *per session* what came to it over the idle server.\n")
	return b.String()
}

func line(r row, rows []row) string {
	if r.err != nil {
		return fmt.Sprintf("| %d | %s | 0 | – | – | – | – | – | – | – | %s |\n", r.asked, r.server, r.err)
	}
	ratio := "–"
	if i := slices.IndexFunc(rows, func(o row) bool { return o.server == official && o.asked == r.asked && o.err == nil && o.Steps > 0 }); i >= 0 {
		ratio = fmt.Sprintf("%.1f", r.StepsPerSecond()/rows[i].StepsPerSecond())
	}
	return fmt.Sprintf("| %d | %s | %d | %.0f | %s | %s | %s | %s | %.0f MiB | %.1f KiB | %s |\n", r.asked, r.server, r.Sessions, r.StepsPerSecond(), ratio,
		short(r.Step.P50), short(r.Step.P99), short(r.Connect.P99), float64(r.memory)/(1<<20), float64(r.memory-r.idle)/1024/float64(max(r.Sessions, 1)), causes(r.Failures))
}

func short(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

func causes(failures map[string]int) string {
	if len(failures) == 0 {
		return "0"
	}
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(failures)) {
		parts = append(parts, fmt.Sprintf("%d: %s", failures[cause], cause))
	}
	return strings.Join(parts, "; ")
}
