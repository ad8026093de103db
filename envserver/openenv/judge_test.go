package openenv

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestJudgeFailureIsLoggedWithoutTheReply reads the log at the level that servers run with.
func TestJudgeFailureIsLoggedWithoutTheReply(t *testing.T) {
	var log bytes.Buffer
	s, url := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := connect(t, url)
	p.ask(`{"type":"reset"}`)
	answer := p.ask(`{"type":"step","data":{"kind":"unjudged","text":"a secret reply"}}`)
	if codeOf(t, answer) != codeExecution || decoded(t, answer, "data", "cause") != "judge_timeout" {
		t.Errorf("the step was answered with %s, want EXECUTION_ERROR and the cause", answer)
	}
	if !strings.Contains(log.String(), "judge_timeout") {
		t.Errorf("the log doesn't name the cause: %s", log.String())
	}
	if got := s.report().JudgeFailures; got != 1 {
		t.Errorf("the report counts %d failures to judge, want 1", got)
	}
	if strings.Contains(answer+log.String(), "secret") {
		t.Errorf("the reply was told: %s %s", answer, log.String())
	}
}
