package ledger

import "github.com/csenv/csenv/envserver/score"

// Recorder counts the episodes of a run: a shard's ledger or a tag's rollouts.
type Recorder interface {
	// Begin counts an episode that was opened.
	Begin()
	// Finish counts the end of an episode. The receipt may be nil.
	Finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error)
}
