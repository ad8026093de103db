package openenv

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
)

// errNoJudge refuses sessions whose episodes could not be graded. It doesn't quote the judge's
// endpoint, because clients read it.
var errNoJudge = errors.New("the judge of replies can't grade yet")

// The wait between two trials of the judge doubles from the first up to the longest.
const (
	firstJudgeWait   = 2 * time.Second
	longestJudgeWait = time.Minute
)

// distrustJudge tries the judge again after an episode that it couldn't grade. Until it can grade,
// no further session begins. Actions in the others fail and can be repeated.
func (s *Server) distrustJudge() {
	if s.cfg.TryJudge != nil && s.trying.CompareAndSwap(false, true) {
		s.spawn(s.tryJudge)
	}
}

// tryJudge tries the judge until it can grade, and admits sessions only then.
func (s *Server) tryJudge() {
	defer s.trying.Store(false)
	for n := 1; ; n++ {
		err := s.cfg.TryJudge(s.ctx)
		if err == nil {
			s.untried.Store(nil)
			s.sessions.slots.Block(nil)
			s.log.Info("The judge can grade", "trials", n)
			return
		}
		if s.ctx.Err() != nil {
			return
		}
		s.untried.Store(&err)
		s.sessions.slots.Block(errNoJudge)
		jitter := func() float64 { return 1 - rand.Float64()/2 } //nolint:gosec // no secret
		wait := endpoint.Backoff(firstJudgeWait, longestJudgeWait, n, jitter)
		s.log.Warn("The judge can't grade, so no session is accepted", "trial", n, "error", err,
			"next", wait.Round(time.Second).String())
		if endpoint.SleepContext(s.ctx, wait) != nil {
			return
		}
	}
}

// judgeFault is why the judge can't grade, "" if it can or its first trial hasn't ended.
func (s *Server) judgeFault() string {
	if err := s.untried.Load(); err != nil {
		return (*err).Error()
	}
	return ""
}
