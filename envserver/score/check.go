package score

import (
	"errors"
	"fmt"
)

var (
	// ErrForeign means that a ledger is of another run or another shard.
	ErrForeign = errors.New("the ledger is of another run or shard")
	// ErrGrader means that a ledger was graded with other scenarios, another grader, another judge
	// or another pass score than planned.
	ErrGrader = errors.New("the ledger was not graded as planned")
	// ErrEpisodes means that a ledger doesn't hold exactly the planned episodes less those reported
	// as errored.
	ErrEpisodes = errors.New("the ledger doesn't hold the planned episodes")
)

// Check reports whether a shard's verified ledger and the runner's summary account for exactly the
// episodes that the plan has for the shard. Which episodes the budget left unplayed isn't known, so
// of such a shard the numbers for each scenario alone are bounded: a server grades planned episodes
// only, and the run can't complete with them. An error wraps ErrForeign, ErrGrader or ErrEpisodes.
// Its time depends on the number of planned episodes alone, not on the summary.
func (p Plan) Check(shard int, l *Ledger, s Summary) error {
	if l.Run != p.Run || l.Shard != shard {
		return fmt.Errorf("%w: run %q shard %d, not run %q shard %d", ErrForeign, l.Run, l.Shard, p.Run, shard)
	}
	planned := grading{p.ScenarioDigest, p.GraderVersion, p.Judge, p.PassScore}
	if got := l.grading(); got != planned {
		return fmt.Errorf("%w: %s; planned are %s", ErrGrader, got, planned)
	}
	if shard < 0 || shard >= p.Shards {
		return fmt.Errorf("%w: shard %d of %d", ErrForeign, shard, p.Shards)
	}
	return p.checkEpisodes(shard, l, s)
}

type pair struct{ task, scenario string }

func (p Plan) checkEpisodes(shard int, l *Ledger, s Summary) error {
	var want PlanDigest
	var errored int64
	rows := map[pair]int64{}
	for ep := range p.Shard(shard) {
		if s.hasErrored(ep.Index) {
			errored++
			continue
		}
		want.Add(ep)
		rows[pair{ep.Task, ep.Scenario}]++
	}
	if claimed := s.ErroredEpisodes(); claimed != errored {
		return fmt.Errorf("%w: %d errored episodes are reported, %d of them belong to the shard", ErrEpisodes, claimed,
			errored)
	}
	// For an honest ledger the digest is sufficient. The counts prevent a forger of digests from
	// moving episodes between scenarios.
	for _, sc := range l.Scenarios {
		for _, row := range sc.Tasks {
			of := pair{row.Task, sc.ID}
			if row.Episodes > rows[of] || row.Episodes < rows[of] && s.Unplayed == 0 {
				return fmt.Errorf("%w: %d of task %s, scenario %s, not %d", ErrEpisodes, row.Episodes, row.Task, sc.ID,
					rows[of])
			}
			if rows[of] -= row.Episodes; rows[of] == 0 {
				delete(rows, of)
			}
		}
	}
	var unplayed int64
	for _, n := range rows {
		unplayed += n
	}
	if unplayed != s.Unplayed || unplayed == 0 && !l.Digest.Equal(want) {
		return fmt.Errorf("%w: it counts %d, and %d are reported as errored, %d as not played", ErrEpisodes,
			l.Scored+l.Failed, errored, s.Unplayed)
	}
	return nil
}
