package ledger

import "github.com/csenv/csenv/envserver/score"

// Recorder is where the episodes of a run are counted: the ledger of one of its shards, or the
// rollouts that it collects.
type Recorder interface {
	// Begin counts an episode that was opened.
	Begin()
	// Finish counts the end of an episode. The receipt is nil where none is given.
	Finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error)
}
