package llm

import (
	"fmt"

	"github.com/csenv/csenv/envserver/grader"
)

// ballot are the votes on a reply.
type ballot struct {
	question *question
	first    string // the key of the first vote
	votes    [][]grader.Evidence
	usage    grader.Usage
	fresh    bool // the model was called for one of the votes
}

// count decides each claim by majority and grades the reply. It fails if a claim has no majority.
func (b *ballot) count(scale string) (grader.Verdict, error) {
	answers := make([]grader.Evidence, len(b.question.claims))
	for i, claim := range b.question.claims {
		e, ok := b.majority(i, claim)
		if !ok {
			return grader.Verdict{Usage: b.usage},
				newFailure(grader.CauseFailed, fmt.Errorf("%d votes don't decide claim %v", len(b.votes), claim.Claim))
		}
		answers[i] = e
	}
	v, err := b.question.assessment.grade(scale, answers)
	if err != nil {
		return grader.Verdict{Usage: b.usage}, err
	}
	v.Usage = b.usage
	if !b.fresh {
		v.Status = grader.StatusCached
	}
	return v, nil
}

// majority returns the first answer of the majority. A vote of met without evidence counts as
// unmet.
func (b *ballot) majority(i int, claim claim) (grader.Evidence, bool) {
	var met, unmet []grader.Evidence
	for _, vote := range b.votes {
		switch e := vote[i]; {
		case e.Verdict == grader.Met && b.question.assessment.refuse(claim, e.Quote) == "":
			met = append(met, e)
		case e.Verdict != cannotJudge:
			unmet = append(unmet, e)
		}
	}
	switch {
	case 2*len(met) > len(b.votes):
		return met[0], true
	case 2*len(unmet) > len(b.votes):
		return unmet[0], true
	}
	return grader.Evidence{}, false
}
