package openenv

import (
	"cmp"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

// playedRun is a run's report and when it was last played.
type playedRun struct {
	report  score.RunReport
	touched time.Time
}

// runReports are the runs that were played here, at most score.MaxRunReports of them: those that
// were played last, ordered by UID.
func (s *Server) runReports() []score.RunReport {
	played := s.ledgers.runs()
	for _, session := range s.sessions.all() {
		if tag := session.tag.Load(); tag != nil && !tag.rollout && played[tag.run] != nil {
			played[tag.run].report.Active++
		}
	}
	runs := make([]*playedRun, 0, len(played))
	for _, run := range played {
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b *playedRun) int {
		return cmp.Or(b.touched.Compare(a.touched), cmp.Compare(a.report.Run, b.report.Run))
	})
	runs = runs[:min(len(runs), score.MaxRunReports)]
	reports := make([]score.RunReport, 0, len(runs))
	for _, run := range runs {
		reports = append(reports, run.report)
	}
	slices.SortFunc(reports, func(a, b score.RunReport) int { return cmp.Compare(a.Run, b.Run) })
	return reports
}

// runs adds the ledgers of each run up.
func (s *ledgers) runs() map[string]*playedRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := map[string]*playedRun{}
	for key, ledger := range s.byKey {
		run := runs[key.run]
		if run == nil {
			run = &playedRun{report: score.RunReport{Run: key.run}}
			runs[key.run] = run
		}
		ledger.addTo(run)
	}
	return runs
}

func (l *runLedger) addTo(run *playedRun) {
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
