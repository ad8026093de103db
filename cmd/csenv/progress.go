package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	runctl "github.com/csenv/csenv/controllers/run"
)

// lineInterval is the least time between two lines of progress where there is no terminal.
const lineInterval = 10 * time.Second

// meter shows how far something is: a bar on a terminal, now and then a line elsewhere. It is safe
// for concurrent use.
type meter struct {
	out  io.Writer
	what string
	now  func() time.Time

	mu       sync.Mutex
	bar      *progressbar.ProgressBar
	terminal bool
	began    time.Time
	last     time.Time
}

func newMeter(out io.Writer, what string, now func() time.Time) *meter {
	began := now()
	return &meter{out: out, what: what, now: now, terminal: isTerminal(out), began: began, last: began}
}

// isTerminal says whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// unknownTotal is the total of episodes that nobody knows.
const unknownTotal = -1

// set shows that so many episodes of a total have ended, errored ones among them.
func (m *meter) set(ended, total, errored int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.terminal {
		m.draw(ended, total, errored)
		return
	}
	now := m.now()
	if now.Sub(m.last) < lineInterval {
		return
	}
	m.last = now
	elapsed := now.Sub(m.began)
	if total == unknownTotal {
		fmt.Fprintf(m.out, "%s: %d episodes, %d errored, %.1f/s\n", m.what, ended, errored,
			float64(ended)/elapsed.Seconds())
		return
	}
	left := "unknown"
	if rest := float64(elapsed) / float64(ended) * float64(total-ended); rest < float64(runctl.LongestEstimate) {
		left = time.Duration(rest).Round(time.Second).String()
	}
	fmt.Fprintf(m.out, "%s: %d of %d episodes, %d errored, %.1f/s, %s left\n", m.what, ended, total, errored,
		float64(ended)/elapsed.Seconds(), left)
}

func (m *meter) draw(ended, total, errored int64) {
	if m.bar == nil {
		m.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(m.out), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("episodes"),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(
				24), progressbar.OptionThrottle(100*time.Millisecond))
	}
	what := m.what
	if errored > 0 {
		what = fmt.Sprintf("%s, %d errored", what, errored)
	}
	m.bar.Describe(what)
	_ = m.bar.Set64(ended) // a bar that can't be drawn is no failure
}

// finish takes the bar away.
func (m *meter) finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		_ = m.bar.Clear()
	}
}

// failureLog keeps, of what a rollout logs, the first failure of each class: why episodes errored
// is what a person asks next.
type failureLog struct {
	next slog.Handler

	mu     sync.Mutex
	counts map[string]int
	first  map[string]string
}

func newFailureLog(verbose bool, out io.Writer) *failureLog {
	l := &failureLog{next: slog.DiscardHandler, counts: map[string]int{}, first: map[string]string{}}
	if verbose {
		l.next = slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})
	}
	return l
}

// Enabled takes warnings and errors.
func (l *failureLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle notes a record that names a class.
func (l *failureLog) Handle(ctx context.Context, r slog.Record) error {
	var class, reason string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "class":
			class = a.Value.String()
		case "error":
			reason = a.Value.String()
		}
		return true
	})
	if class != "" {
		l.mu.Lock()
		if l.counts[class]++; l.counts[class] == 1 {
			l.first[class] = reason
		}
		l.mu.Unlock()
	}
	if !l.next.Enabled(ctx, r.Level) {
		return nil
	}
	return l.next.Handle(ctx, r)
}

// WithAttrs adds to what is passed on alone.
func (l *failureLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup has no use for groups.
func (l *failureLog) WithGroup(string) slog.Handler { return l }

// print says which attempts failed and why.
func (l *failureLog) print(w io.Writer) {
	for _, class := range slices.Sorted(maps.Keys(l.counts)) {
		paragraph(w, "", fmt.Sprintf("%s failed with %s; the first: %s", count(l.counts[class], "attempt"), class,
			l.first[class]))
	}
}
