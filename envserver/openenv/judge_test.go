package openenv

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/internal/testkit/wire"
)

// TestJudgeFailureIsLoggedWithoutTheReply reads the log at the default level of servers.
func TestJudgeFailureIsLoggedWithoutTheReply(t *testing.T) {
	var log bytes.Buffer
	s, url := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset"}`)
	answer := p.Ask(`{"type":"step","data":{"kind":"unjudged","text":"a secret reply"}}`)
	if wire.CodeOf(t, answer) != protocol.CodeExecution || wire.Decoded(t, answer, "data", "cause") != "judge_timeout" {
		t.Errorf("the step was answered with %s, want EXECUTION_ERROR and the cause", answer)
	}
	for what, text := range map[string]string{"answer": answer, "log": log.String()} {
		if !strings.Contains(text, "judge_timeout") || !strings.Contains(text, "answered 401 Unauthorized") {
			t.Errorf("the %s doesn't name the cause and the status: %s", what, text)
		}
	}
	if got := s.report().JudgeFailures; got != 1 {
		t.Errorf("the report counts %d failures to judge, want 1", got)
	}
	if strings.Contains(answer+log.String(), "secret") {
		t.Errorf("the reply was revealed: %s %s", answer, log.String())
	}
}

// A judge that fails in all sessions doesn't fill the log.
func TestJudgeFailuresAreLoggedAtALimitedRate(t *testing.T) {
	var log bytes.Buffer
	_, url := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset"}`)
	for range 30 {
		p.Ask(`{"type":"step","data":{"kind":"unjudged","text":"a"}}`)
	}
	if n := strings.Count(log.String(), "The judge failed"); n < 1 || n > 12 {
		t.Errorf("%d lines of 30 failures: %s", n, log.String())
	}
}
