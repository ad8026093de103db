package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/csenv/csenv/controllers/evaluation"
)

const (
	// LineInterval is the minimum time between two lines of progress outside a terminal.
	LineInterval = 10 * time.Second
	// QuietInterval is the longest time without a line there, even if nothing has ended.
	QuietInterval = time.Minute
)

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

// Progress is how far a run is.
type Progress struct {
	// Ended counts the episodes that have ended, with those that are Errored and those that an
	// earlier call played, which are Resumed.
	Ended, Total, Errored, Resumed int64
	// Score is the mean score so far, "" before there is one.
	Score string
	// Notes are further details, such as what is waited for.
	Notes []string
}

// Set shows the progress.
func (m *Meter) Set(p Progress) { m.show(p, LineInterval) }

// Remind shows the progress again although nothing has ended.
func (m *Meter) Remind(p Progress) { m.show(p, QuietInterval) }

func (m *Meter) show(p Progress, interval time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if m.Terminal {
		m.draw(p, now)
		return
	}
	if now.Sub(m.last) < interval {
		return
	}
	m.last = now
	count := fmt.Sprintf("%d of %d episodes", p.Ended, p.Total)
	if p.Total == UnknownTotal {
		count = fmt.Sprintf("%d episodes", p.Ended)
	}
	fmt.Fprintf(m.out, "%s: %s%s\n", m.what, count, m.details(p, now))
}

// details are the parts after the number of episodes. Episodes of an earlier call took no time.
func (m *Meter) details(p Progress, now time.Time) (text string) {
	var b strings.Builder
	if p.Errored > 0 {
		fmt.Fprintf(&b, ", %d errored", p.Errored)
	}
	if p.Score != "" {
		fmt.Fprintf(&b, ", score %s", p.Score)
	}
	defer func() {
		for _, note := range p.Notes {
			if note != "" {
				text += ", " + note
			}
		}
	}()
	elapsed, played := now.Sub(m.began), p.Ended-p.Resumed
	if played <= 0 || elapsed <= 0 {
		return b.String()
	}
	fmt.Fprintf(&b, ", %.1f/s", float64(played)/elapsed.Seconds())
	if p.Total == UnknownTotal {
		return b.String()
	}
	left := "unknown"
	if rest, known := evaluation.TimeLeft(elapsed, played, p.Total-p.Resumed); known {
		left = rest.Round(time.Second).String()
	}
	return b.String() + ", " + left + " left"
}

func (m *Meter) draw(p Progress, now time.Time) {
	if m.bar == nil {
		m.bar = progressbar.NewOptions64(p.Total, progressbar.OptionSetWriter(m.out), progressbar.OptionShowCount(),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(16),
			progressbar.OptionThrottle(100*time.Millisecond))
	}
	m.bar.Describe(m.what + m.details(p, now))
	_ = m.bar.Set64(p.Ended) // a bar that can't be drawn is no failure
}

// Finish removes the bar.
func (m *Meter) Finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		_ = m.bar.Clear()
		m.bar = nil
	}
}
