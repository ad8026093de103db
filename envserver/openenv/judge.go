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

// tryJudge tries the judge until it can grade, and then admits sessions. A judge that fails later
// is the matter of the episodes: their actions fail and can be repeated.
func (s *Server) tryJudge() {
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
		wait := endpoint.Backoff(firstJudgeWait, longestJudgeWait, n, func() float64 { return 1 - rand.Float64()/2 })
		s.log.Warn("The judge can't grade, so no session is accepted", "trial", n, "error", err,
			"next", wait.Round(time.Second).String())
		if endpoint.Wait(s.ctx, wait) != nil {
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
