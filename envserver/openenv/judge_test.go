package openenv

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// TestJudgeFailureIsLoggedWithoutTheReply reads the log at the default level of servers.
func TestJudgeFailureIsLoggedWithoutTheReply(t *testing.T) {
	var log bytes.Buffer
	s, url := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset"}`)
	answer := p.Ask(`{"type":"step","data":{"kind":"unjudged","text":"a secret reply"}}`)
	if wire.CodeOf(t, answer) != protocol.CodeExecution || wire.DecodePath(t, answer, "data", "cause") != "judge_timeout" {
		t.Errorf("the step was answered with %s, want EXECUTION_ERROR and the cause", answer)
	}
	const detail = "answered 401 Unauthorized" // for the operator alone
	if !strings.Contains(log.String(), "judge_timeout") || !strings.Contains(log.String(), detail) {
		t.Errorf("the log doesn't name the cause and the status: %s", log.String())
	}
	if strings.Contains(answer, detail) {
		t.Errorf("the answer tells the agent of the judge's endpoint: %s", answer)
	}
	if got := s.makeReport(nil).JudgeFailures; got != 1 {
		t.Errorf("the report counts %d failures to judge, want 1", got)
	}
	if strings.Contains(answer+log.String(), "secret") {
		t.Errorf("the reply was revealed: %s %s", answer, log.String())
	}
}

// The end of an errored episode tells the runner of a run why, and no agent or trainer.
func TestEndOfAnErroredEpisode(t *testing.T) {
	var log bytes.Buffer
	_, url := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := wire.Connect(t, url)
	const detail = "answered 401 Unauthorized"
	for reset, told := range map[string]bool{
		`{"type":"reset"}`: false,
		`{"type":"reset","data":{"run":"run-1","shard":0,"episode":0,"pass_score":500000}}`: true,
	} {
		p.Ask(reset)
		last := p.Ask(`{"type":"step","data":{"kind":"errored"}}`)
		if wire.DecodePath(t, last, "data", "observation", "metadata", "cause") != "judge_timeout" ||
			strings.Contains(last, detail) != told {
			t.Errorf("after %s: %s", reset, last)
		}
	}
	if n := strings.Count(log.String(), detail); n != 2 {
		t.Errorf("%d of 2 episodes are logged with the detail: %s", n, log.String())
	}
}

// The runner of a run receives the reasons of a verdict, which are stored, and no agent or trainer.
func TestVerdictsAreServedWithoutReasons(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	for reset, told := range map[string]bool{
		`{"type":"reset"}`: false,
		`{"type":"reset","data":{"run":"run-1","shard":0,"episode":0,"pass_score":500000}}`: true,
	} {
		p.Ask(reset)
		last := p.Ask(`{"type":"step","data":{"kind":"judged"}}`)
		if !strings.Contains(last, `"id":"Q1"`) || strings.Contains(last, "f2 missing") != told {
			t.Errorf("after %s: %s", reset, last)
		}
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

// While the judge can't grade, no session begins, on any transport. The server tries the judge
// again and notices when it recovers.
func TestNoSessionBeginsBeforeTheJudgeCanGrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		trials := 0
		s, network, end := servePipe(t, Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			TryJudge: func(context.Context) error {
				if trials++; trials < 4 {
					return errors.New("trying the judge: the endpoint answered 401 Unauthorized: bad key")
				}
				return nil
			},
		})
		defer end()
		probe := func() int {
			answer := httptest.NewRecorder()
			s.OpsHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
			return answer.Code
		}
		synctest.Wait()
		if code := probe(); code != http.StatusServiceUnavailable {
			t.Errorf("/readyz: %d", code)
		}
		if got := s.makeReport(nil); !strings.HasSuffix(got.JudgeFault, "401 Unauthorized: bad key") || got.Draining {
			t.Errorf("the report: %+v", got)
		}
		refused := wire.ConnectPipe(t, network).Ask(`{"type":"reset"}`)
		if wire.CodeOf(t, refused) != protocol.CodeCapacity ||
			!strings.Contains(refused, "the judge of replies can't grade") || strings.Contains(refused, "401") {
			t.Errorf("a session: %s", refused)
		}
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/reset", strings.NewReader(`{}`)))
		if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "can't grade") {
			t.Errorf("a request: %d %s", answer.Code, answer.Body)
		}
		<-time.After(firstJudgeWait + 2*firstJudgeWait + 4*firstJudgeWait)
		synctest.Wait()
		if got := s.makeReport(nil).JudgeFault; trials != 4 || got != "" || probe() != http.StatusOK {
			t.Errorf("after %d trials: %q, /readyz %d", trials, got, probe())
		}
		session := wire.ConnectPipe(t, network)
		if begun := session.Ask(`{"type":"reset"}`); !strings.Contains(begun, `"observation"`) {
			t.Errorf("a session afterwards: %s", begun)
		}

		// The judge breaks during an episode. Three trials fail, the fourth succeeds.
		trials = 0
		session.Ask(`{"type":"step","data":{"kind":"errored"}}`)
		synctest.Wait()
		if got := s.makeReport(nil).JudgeFault; got == "" || probe() == http.StatusOK {
			t.Errorf("after an episode that could not be graded: %q, /readyz %d", got, probe())
		}
		<-time.After(firstJudgeWait + 2*firstJudgeWait + 4*firstJudgeWait)
		synctest.Wait()
		if got := s.makeReport(nil).JudgeFault; trials != 4 || got != "" || probe() != http.StatusOK {
			t.Errorf("after %d more trials: %q, /readyz %d", trials, got, probe())
		}
		if n := strings.Count(log.String(), "bad key"); n != 6 {
			t.Errorf("%d of 6 failures are logged: %s", n, log.String())
		}
	})
}
