package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"
)

// documentText is the template of the page.
//
//go:embed benchmark.md.tmpl
var documentText string

// renderDocument renders the results as Markdown.
func renderDocument(rows []row, agreed agreement, duration time.Duration, command string) (string, error) {
	requirements, err := os.ReadFile(filepath.Join(upstreamFolder, "requirements.txt"))
	if err != nil {
		return "", fmt.Errorf("reading the official server's requirements (run this from the checkout's root): %w", err)
	}
	parsed, err := template.New("benchmark").Parse(documentText)
	if err != nil {
		return "", fmt.Errorf("parsing the document: %w", err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{
		"Command": command, "Machine": describeMachine(), "Go": runtime.Version(),
		"Packages": formatRequirements(string(requirements)),
		"Duration": duration, "Agreed": agreed, "Compared": agreed.episodes > 0,
		"Targets": targetsOf(rows), "Shares": sharesOf(rows), "Table": tableOf(rows),
	})
	return out.String(), err
}

// sharesOf shows the steps per second of each kind of step as a share of those of the bare echo.
func sharesOf(rows []row) string {
	var b strings.Builder
	b.WriteString("| step | 100 sessions | 400 sessions | CPU per step, 100 sessions |\n|---|---|---|---|\n")
	for _, kind := range kinds {
		cost := "–"
		if r := findRow(rows, kind.server, 100); r != nil {
			cost = r.cpu.Round(100 * time.Nanosecond).String()
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", kind.name, formatShare(rows, kind.server, 100),
			formatShare(rows, kind.server, 400), cost)
	}
	return b.String()
}

func formatShare(rows []row, server string, sessions int) string {
	r, echo := findRow(rows, server, sessions), findRow(rows, bare, sessions)
	if r == nil || echo == nil {
		return "not measured"
	}
	return fmt.Sprintf("%.0f %%", 100*r.StepsPerSecond()/echo.StepsPerSecond())
}

func tableOf(rows []row) string {
	var b strings.Builder
	b.WriteString("| sessions | server | open | steps/s | ratio | step p50 | step p99 | connect p99 | CPU per step | " +
		"memory | per session | failures |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		b.WriteString(formatRow(r, rows))
	}
	return b.String()
}

func formatRow(r row, rows []row) string {
	if r.err != nil {
		return fmt.Sprintf("| %d | %s | 0 | – | – | – | – | – | – | – | – | %s |\n", r.asked, r.server, r.err)
	}
	ratio := "–"
	if o := findRow(rows, referenceServer(r.server), r.asked); o != nil {
		ratio = fmt.Sprintf("%.1f", r.StepsPerSecond()/o.StepsPerSecond())
	}
	return fmt.Sprintf(
		"| %d | %s | %d | %.0f | %s | %s | %s | %s | %s | %.0f MiB | %s | %s |\n",
		r.asked,
		r.server,
		r.Sessions,
		r.StepsPerSecond(),
		ratio,
		formatDuration(
			r.Step.P50,
		),
		formatDuration(r.Step.P99),
		formatDuration(r.Connect.P99),
		r.cpu.Round(100*time.Nanosecond),
		float64(
			r.memory)/(1<<20),
		r.memoryOfOne(),
		formatCauses(r.Failures),
	)
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

// describeMachine describes the processor, the number of processors and the kernel.
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
	return fmt.Sprintf("%s, %d processors, Linux %s", model, runtime.NumCPU(), strings.TrimSpace(string(kernel)))
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

// atLeast compares the steps per second of the first row with those of the second.
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

func targetsOf(rows []row) string {
	var b strings.Builder
	b.WriteString("| what | target | measured | met |\n|---|---|---|---|\n")
	for _, t := range targets {
		measured, met := t.measure(rows)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.name, t.wanted, measured, met)
	}
	return b.String()
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
