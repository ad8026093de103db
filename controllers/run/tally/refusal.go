package tally

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/envserver/score"
)

// The reasons why a summary is refused: the values of a metric's label.
const (
	RefusedMalformed = "malformed"
	RefusedSignature = "signature"
	RefusedForeign   = "foreign"
	RefusedGrader    = "grader"
	RefusedEpisodes  = "episodes"
	RefusedReplayed  = "replayed"
)

// Refusal is a summary or segment that is not counted. A refused shard is played by another Job,
// since its pod has succeeded.
type Refusal struct {
	Pod    *corev1.Pod
	Reason string
	Err    error
}

func classifyRefusal(err error) string {
	for reason, sentinel := range map[string]error{
		RefusedSignature: score.ErrSignature,
		RefusedForeign:   score.ErrForeign,
		RefusedGrader:    score.ErrGrader,
		RefusedEpisodes:  score.ErrEpisodes,
		RefusedReplayed:  errReplayed,
	} {
		if errors.Is(err, sentinel) {
			return reason
		}
	}
	return RefusedMalformed
}

// errReplayed means that a segment is in the figures already.
var errReplayed = errors.New("the segment has been counted before")
