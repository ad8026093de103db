package snapshot

import (
	"time"

	"github.com/csenv/csenv/envserver/score"
)

// Live are the servers' counts of a run's episodes. They show progress, and never enter the
// score.
type Live struct {
	Known bool // false before the first poll has ended
	// AsOf is when the last poll that has ended was requested, and Graded the number of episodes
	// that its servers have graded themselves.
	AsOf   time.Time
	Graded int64
	// Complete reports whether all servers have answered it.
	Complete bool
	Due      bool // whether it is time to write them to the status
	// Active and Ended are numbers of episodes; Ended includes the episodes of counted shards.
	// Episodes of servers that no longer exist are missing.
	Active, Ended int64
	// Idle is how long no episode was active and none has ended.
	Idle time.Duration
	// Sessions counts the sessions of all servers that answered the last poll.
	Sessions score.Sessions
}

const (
	// PollInterval is the minimum time between two polls of a pool, however many runs it plays.
	PollInterval = 5 * time.Second
	// A run's progress is written whenever another 1/showParts of its elapsed time has passed, at
	// least every maxShowInterval.
	maxShowInterval = time.Minute
	showParts       = 50
	// CountsPatience is how long after its end a run's figures are compared with the servers'
	// counts.
	CountsPatience = 2 * time.Minute
)

// LiveInterval is the time between two writes of the run's progress.
func (s Snapshot) LiveInterval() time.Duration {
	return min(max(s.Now.Sub(s.Run.Status.StartTime.Time)/showParts, PollInterval), maxShowInterval)
}

// LostServer is a server that ended without its last episodes: it was neither told to end nor
// drained.
type LostServer struct {
	Pod string
	// Active is the number of episodes that it was playing when it last replied, at Seen, and
	// Largest the most that it has ever returned at a time.
	Active, Largest int64
	Seen            time.Time
}
