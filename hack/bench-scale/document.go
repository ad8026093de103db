package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"
)

// documentText is the template of the page.
//
//go:embed scale.md.tmpl
var documentText string

// renderDocument renders the results as Markdown.
func renderDocument(o options, cells []cell, e endurance) (string, error) {
	parsed, err := template.New("scale").Parse(documentText)
	if err != nil {
		return "", fmt.Errorf("parsing the document: %w", err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{
		"Machine": describeMachine(), "Go": runtime.Version(), "Files": o.files, "Servers": o.servers,
		"Sessions":  o.sessions,
		"PerServer": perProcess(o.sessions, o.servers), "Pause": o.pause, "Drain": o.drain, "Dialing": o.dialing,
		"Clients": o.servers, "Duration": o.duration, "Endurance": enduranceTable(e), "Growth": growthTable(cells),
	})
	return out.String(), err
}

// describeMachine describes the processor, the number of processors, the memory and the kernel.
func describeMachine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	available, _ := availableMemory()
	return fmt.Sprintf("%s, %d processors, %d GiB of memory available, Linux %s", model, runtime.NumCPU(),
		available>>30, strings.TrimSpace(string(kernel)))
}

func enduranceTable(e endurance) string {
	var b strings.Builder
	b.WriteString("| what | measured |\n|---|---|\n")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	line("sessions open", "%d of %d, after %v", e.open, e.sessions, e.opening.Round(time.Second))
	line("connects refused while they were opened", "%d", e.refused)
	line("connect, p50 and p99", "%s, %s", formatDuration(e.connectP50), formatDuration(e.connectP99))
	line("a session on the server", "%.1f KiB resident, %.1f KiB of it on the heap", e.serverRSS/1024,
		e.serverHeap/1024)
	line("a session on the client", "%.1f KiB resident", e.clientRSS/1024)
	line("answers", "%d in %v, p50 %s, p99 %s", e.steps, e.played.Round(time.Second), formatDuration(e.stepP50),
		formatDuration(e.stepP99))
	line("the servers' processor time for an answer", "%v", e.cpu.Round(time.Microsecond))
	line("servers replaced", "%d in %v, the slowest in %v", e.replaced, e.replacing.Round(time.Second),
		e.longestDrain.Round(time.Second))
	line("sessions that moved to another server", "%d", e.tally.Moved)
	line("sessions lost", "%d; %d were open at the end", e.tally.LostSessions, e.openAtEnd)
	line("episodes ended", "%d", e.tally.Episodes)
	line("episodes lost", "%d", e.tally.LostEpisodes)
	line("failures by cause", "%s", formatCauses(e.causes))
	return b.String()
}

func growthTable(cells []cell) string {
	var b strings.Builder
	b.WriteString("| servers | sessions | open | failed | steps/s | step p99 | CPU per step | per session |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, c := range cells {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %.0f | %s | %v | %s |\n", c.servers, c.sessions, c.open, c.failed,
			c.rate, formatDuration(c.p99), c.cpu.Round(100*time.Nanosecond), formatMemory(c))
	}
	return b.String()
}

// manySessions is the number of sessions of a server from which their memory exceeds the noise of
// garbage collection.
const manySessions = 1000

func formatMemory(c cell) string {
	if !c.fills() {
		return "–"
	}
	return fmt.Sprintf("%.1f KiB", c.bytes/1024)
}

func (c cell) fills() bool { return c.sessions/c.servers >= manySessions }

func formatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

func formatCauses(failures map[string]int) string {
	if len(failures) == 0 {
		return "none"
	}
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(failures)) {
		parts = append(parts, fmt.Sprintf("%d: %s", failures[cause], strings.ReplaceAll(cause, "|", "/")))
	}
	return strings.Join(parts, "; ")
}
