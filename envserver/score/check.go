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
	ErrGrader = errors.New("the ledger was graded otherwise than planned")
	// ErrEpisodes means that a ledger doesn't hold exactly the planned episodes less those reported
	// as errored.
	ErrEpisodes = errors.New("the ledger doesn't hold the planned episodes")
)

// Check says whether a shard's verified ledger and the runner's summary account for exactly the
// episodes that the plan has for the shard. An error wraps ErrForeign, ErrGrader or ErrEpisodes. It
// takes time in the number of planned episodes, whatever the summary claims.
func (p Plan) Check(shard int, l *Ledger, s Summary) error {
	if l.Run != p.Run || l.Shard != shard {
		return fmt.Errorf("%w: run %q shard %d, not run %q shard %d", ErrForeign, l.Run, l.Shard, p.Run, shard)
	}
	planned := identity{p.Run, p.ScenarioDigest, p.GraderVersion, p.Judge, shard, p.PassScore}
	if l.identity() != planned {
		return fmt.Errorf("%w: scenarios %s, grader %s, judge %s, pass score %s; planned are %s, %s, %s, %s", ErrGrader,
			l.ScenarioDigest, l.GraderVersion, l.Judge, Decimal(
				l.PassScore), p.ScenarioDigest, p.GraderVersion, p.Judge, Decimal(p.PassScore))
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
		if s.errored(ep.Index) {
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
	// The counts say the same as the digest to anyone honest, and leave a forger of digests nothing
	// to shift between scenarios.
	for _, sc := range l.Scenarios {
		for _, row := range sc.Tasks {
			if rows[pair{row.Task, sc.ID}] != row.Episodes {
				return fmt.Errorf("%w: %d of task %s, scenario %s, not %d", ErrEpisodes, row.Episodes, row.Task, sc.ID,
					rows[pair{row.Task, sc.ID}])
			}
			delete(rows, pair{row.Task, sc.ID})
		}
	}
	if len(rows) > 0 || !l.Digest.Equal(want) {
		return fmt.Errorf("%w: it counts %d, and %d are reported as errored", ErrEpisodes, l.Scored+l.Failed, errored)
	}
	return nil
}
