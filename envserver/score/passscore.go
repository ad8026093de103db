package score

// passScores are the default pass scores of tasks, in micro-points.
var passScores = map[string]int64{
	"ticket-classify":   800_000,
	"ticket-resolve":    750_000,
	"queue-management":  850_000,
	"order-inquiry":     750_000,
	"refund":            750_000,
	"payment-exception": 750_000,
	"case-easy":         750_000,
	"case-medium":       750_000,
	"case-hard":         750_000,
}

// DefaultPassScore is the pass score of a run of these tasks that sets none, in micro-points: the
// one that all of them share, or 0.8 if they differ, if there are none, or if one is unknown.
func DefaultPassScore(tasks ...string) int64 {
	const mixed = 800_000
	shared := int64(0)
	for i, task := range tasks {
		pass, ok := passScores[task]
		if !ok || i > 0 && pass != shared {
			return mixed
		}
		shared = pass
	}
	if shared == 0 {
		return mixed
	}
	return shared
}
