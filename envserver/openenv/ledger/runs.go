package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

// playedRun is a run's report and when it was last played.
type playedRun struct {
	report  score.RunReport
	touched time.Time
}

// RunReports reports the score.MaxRunReports runs that were played last, ordered by UID. Active has
// the number of running episodes of each run.
func (s *Ledgers) RunReports(active map[string]int64) []score.RunReport {
	runs := slices.SortedFunc(maps.Values(s.runs()), func(a, b *playedRun) int {
		return cmp.Or(b.touched.Compare(a.touched), cmp.Compare(a.report.Run, b.report.Run))
	})
	runs = runs[:min(len(runs), score.MaxRunReports)]
	reports := make([]score.RunReport, 0, len(runs))
	for _, run := range runs {
		run.report.Active = active[run.report.Run]
		reports = append(reports, run.report)
	}
	slices.SortFunc(reports, func(a, b score.RunReport) int { return cmp.Compare(a.Run, b.Run) })
	return reports
}

// runs adds up the ledgers of each run.
func (s *Ledgers) runs() map[string]*playedRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := map[string]*playedRun{}
	for key, ledger := range s.byKey {
		run := runs[key.Run]
		if run == nil {
			run = &playedRun{report: score.RunReport{Run: key.Run}}
			runs[key.Run] = run
		}
		ledger.addTo(run)
	}
	return runs
}

func (l *ShardLedger) addTo(run *playedRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	run.report.Scored += l.sums.Scored
	run.report.Failed += l.sums.Failed
	run.report.Errored += l.errored
	for i := range l.sums.Tasks {
		run.report.ScoreSum += l.sums.Tasks[i].Sum
	}
	if l.touched.After(run.touched) {
		run.touched = l.touched
	}
}
