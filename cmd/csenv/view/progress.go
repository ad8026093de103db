package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

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
	bar      *Bar
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
		m.bar = NewBar(m.out)
	}
	m.bar.Draw(m.what+m.details(p, now), p.Ended, p.Total, now)
}

// Finish removes the bar.
func (m *Meter) Finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bar != nil {
		m.bar.Clear()
		m.bar = nil
	}
}

// clearLine clears a terminal's line.
const clearLine = "\r\x1b[K"

const (
	barWidth    = 16
	barInterval = 100 * time.Millisecond
)

// Bar is a progress bar in one line of a terminal.
type Bar struct {
	out   io.Writer
	drawn time.Time
}

// NewBar returns a bar that is drawn to out.
func NewBar(out io.Writer) *Bar { return &Bar{out: out} }

// Draw draws the bar with a text before it, cut to the width of the terminal. It draws ten times a
// second at most, and the last step always.
func (b *Bar) Draw(text string, done, total int64, now time.Time) {
	if now.Sub(b.drawn) < barInterval && done != total {
		return
	}
	b.drawn = now
	count := strconv.FormatInt(done, 10)
	if total > 0 {
		full := int(min(done, total) * barWidth / total)
		count = fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), done, total)
	}
	line := []rune(text + " " + count)
	fmt.Fprint(b.out, clearLine+string(line[:min(len(line), terminalWidth(b.out)-1)]))
}

// Clear removes the bar.
func (b *Bar) Clear() { fmt.Fprint(b.out, clearLine) }
