package score

// Outcome says how an episode ended.
type Outcome string

const (
	// Scored episodes ran to their end.
	Scored Outcome = "scored"
	// Failed episodes ended by the agent's fault (invalid actions, out of steps) and are scored as
	// they stand.
	Failed Outcome = "failed"
	// Errored episodes ended by a failure of ours or of the infrastructure. They are never scored.
	Errored Outcome = "errored"
)

// One is the full score of an episode in micro-points, the unit of every sum of this package: 1e-6
// of the full score. Points of a dimension are milli-points (1e-3), which graders award exactly; an
// episode's score is a ratio of those (two thirds, say) and needs the finer unit.
const One = 1_000_000

// Dimension is what one part of the rubric earned out of what it offered, in milli-points. Earned
// may be negative where a rubric has penalties.
type Dimension struct {
	Name    string `json:"name"`
	Earned  int64  `json:"earned"`
	Offered int64  `json:"offered"`
}
