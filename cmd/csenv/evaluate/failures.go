package evaluate

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/play/rollout"
)

// failureLog is a slog handler that keeps the first failure of each class and counts the others.
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

// Enabled accepts warnings and errors.
func (l *failureLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle counts a record that has a class.
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

// WithAttrs ignores the attributes: only the attributes of records matter.
func (l *failureLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup ignores groups.
func (l *failureLog) WithGroup(string) slog.Handler { return l }

// print lists the failed attempts by class, with the first error of each, and the episodes
// without an action of those with a score.
func (l *failureLog) print(w io.Writer, graded int64) {
	for _, class := range view.SortedKeys(l.counts) {
		if class == rollout.ClassMute {
			view.WriteParagraph(w, "", fmt.Sprintf("no answer was an action in %d of %s; the first: %s",
				l.counts[class], view.FormatCount(int(graded), "episode"), l.first[class]))
			continue
		}
		view.WriteParagraph(
			w,
			"",
			fmt.Sprintf("%s failed with %s; the first: %s", view.FormatCount(l.counts[class], "attempt"),
				class, l.first[class]),
		)
	}
}
