package view

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/csenv/csenv/controllers/evaluation"
)

// LineInterval is the minimum time between two lines of progress outside a terminal.
const LineInterval = 10 * time.Second

// Meter shows progress: as a bar on a terminal, otherwise as occasional lines. It is safe for
// concurrent use.
type Meter struct {
	out  io.Writer
	what string
	now  func() time.Time

	mu       sync.Mutex
	bar      *progressbar.ProgressBar
	Terminal bool
	began    time.Time
	last     time.Time
}

// NewMeter returns a meter that writes to out.
func NewMeter(out io.Writer, what string, now func() time.Time) *Meter {
	began := now()
	return &Meter{out: out, what: what, now: now, Terminal: IsTerminal(out), began: began, last: began}
}

// UnknownTotal is the total of a run without a fixed number of episodes.
const UnknownTotal = -1

// Set shows the number of ended episodes, including errored ones.
func (m *Meter) Set(ended, total, errored int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Terminal {
		m.draw(ended, total, errored)
		return
	}
	now := m.now()
	if now.Sub(m.last) < LineInterval {
		return
	}
	m.last = now
	elapsed := now.Sub(m.began)
	if total == UnknownTotal {
		fmt.Fprintf(m.out, "%s: %d episodes, %d errored, %.1f/s\n", m.what, ended, errored,
			float64(ended)/elapsed.Seconds())
		return
	}
	left := "unknown"
	if rest, known := evaluation.TimeLeft(elapsed, ended, total); known {
		left = rest.Round(time.Second).String()
	}
	fmt.Fprintf(m.out, "%s: %d of %d episodes, %d errored, %.1f/s, %s left\n", m.what, ended, total, errored,
		float64(ended)/elapsed.Seconds(), left)
}

func (m *Meter) draw(ended, total, errored int64) {
	if m.bar == nil {
		m.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(m.out), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("episodes"),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(24), progressbar.OptionThrottle(100*time.Millisecond))
	}
	what := m.what
	if errored > 0 {
		what = fmt.Sprintf("%s, %d errored", what, errored)
	}
	m.bar.Describe(what)
	_ = m.bar.Set64(ended) // a bar that can't be drawn is no failure
}

// Finish removes the bar.
func (m *Meter) Finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		_ = m.bar.Clear()
	}
}
