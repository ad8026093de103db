package evaluate

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/play/rollout"
)

// Failures are listed by class, and episodes without an action with the first answer.
func TestFailures(t *testing.T) {
	l := newFailureLog(false, nil)
	log := slog.New(l)
	for range 2 {
		log.Warn("An episode failed", "class", "agent_timeout", "error", errors.New("too late"))
		log.Warn("No answer was an action", "class", rollout.ClassMute, "error", errors.New("I would."))
	}
	var out strings.Builder
	l.print(&out, 3)
	const want = "2 attempts failed with agent_timeout; the first: too late\n" +
		"no answer was an action in 2 of 3 episodes; the first: I would.\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
