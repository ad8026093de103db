// Package score computes the results of an evaluation run: the plan of its episodes, the sums that
// servers add up while they grade, and the figures that follow. Servers, runners and the controller
// share it, and it depends on none of them.
//
// A [Plan] derives its episodes arithmetically and stores no list. A server keeps a [Ledger] for
// each shard of a run and signs it. A runner relays the [SignedLedger] in its [Summary], which fits
// into a container's termination message. The controller verifies the summary, checks it against
// the plan and folds it into an [Accumulator], whose size doesn't depend on the number of episodes
// or scenarios. Episodes without a plan, which trainers play, come in a [Segment]: a server keeps a
// [Tally] of them, and the controller merges the ledgers.
//
// All sums are integers, so folding is associative and commutative: the figures are the same bytes
// in whatever order shards end. Floating point appears in the last step, [Accumulator.Figures].
// docs/architecture.md shows which type is made, stored and checked where.
//
// Units: scores are micro-points ([One] is the full score), points of a dimension are milli-points.
package score

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/score/stats"
)

// Outcome is how an episode ended.
type Outcome string

const (
	// Scored episodes ran to their end.
	Scored Outcome = "scored"
	// Failed episodes ended by the agent's fault (invalid actions, out of steps). Their score
	// counts.
	Failed Outcome = "failed"
	// Errored episodes ended by a failure of csenv or of the infrastructure. They have no score.
	Errored Outcome = "errored"
	// Withheld is what a client learns of an episode that ended scored or failed, if the server
	// doesn't tell it the score.
	Withheld Outcome = "withheld"
)

// Word is what people are told of an outcome: of a scored episode, whether it passed or missed.
func (o Outcome) Word(passed bool) string {
	switch {
	case o == Scored && passed:
		return "passed"
	case o == Scored:
		return "missed"
	}
	return string(o)
}

// One is the full score of an episode in micro-points. An episode's score is a ratio of
// milli-points, two thirds for example, and so needs the finer unit.
const One = stats.One

// Dimension is what one part of the rubric earned out of what it offered, in milli-points, for one
// episode or summed over several. Earned may be negative where a rubric has penalties.
type Dimension struct {
	Name    string `json:"name"`
	Earned  int64  `json:"earned"`
	Offered int64  `json:"offered"`
}

// FormatDecimal writes micro-points as a decimal string with four places, rounded half away from
// zero: 731250 is "0.7313".
func FormatDecimal(micro int64) string {
	const unit = One / 10_000
	sign := ""
	magnitude := uint64(micro) //nolint:gosec // two's complement, so the least integer has a magnitude
	if micro < 0 {
		magnitude = -magnitude
	}
	tenThousandths := (magnitude + unit/2) / unit
	if micro < 0 && tenThousandths > 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s%d.%04d", sign, tenThousandths/10_000, tenThousandths%10_000)
}

// FormatThousandths formats thousandths, such as the points of the rubric, as a decimal with 3
// places.
func FormatThousandths(n int64) string { return fmt.Sprintf("%.3f", float64(n)/1000) }

// FormatExact writes micro-points from 0 to One with as few places as hold them: 750000 is "0.75".
func FormatExact(micro int64) string {
	text := fmt.Sprintf("%d.%06d", micro/One, micro%One)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

var decimalPattern = regexp.MustCompile(`^(0|1)(\.[0-9]{1,6})?$`)

// ParseDecimal reads a score from 0 to 1 with at most six places ("0.8") as micro-points.
func ParseDecimal(text string) (int64, error) {
	if !decimalPattern.MatchString(text) {
		return 0, fmt.Errorf("score %q: write a decimal from 0 to 1 with at most six places, such as 0.8", text)
	}
	whole, places, _ := strings.Cut(text, ".")
	micro, err := strconv.ParseInt(whole+places+strings.Repeat("0", 6-len(places)), 10, 64)
	if err != nil || micro > One {
		return 0, fmt.Errorf("score %q is above 1", text)
	}
	return micro, nil
}
