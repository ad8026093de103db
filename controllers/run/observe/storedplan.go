package observe

import (
	"errors"
	"fmt"

	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// StoredPlan reads the plan in the run's ConfigMap. Any user of the namespace may write to it, so
// the plan must have the fingerprint in the status, and the agent must be the run's.
func (s Snapshot) StoredPlan() (score.Plan, error) {
	if s.PlanMap == nil {
		return score.Plan{}, errors.New("there is no such ConfigMap")
	}
	sums, _, err := tally.ReadCounted(s.Run)
	if err != nil {
		return score.Plan{}, err
	}
	data := []byte(s.PlanMap.Data[runner.PlanKey])
	if err := MatchFingerprint(score.FingerprintOf(data), sums.Plan); err != nil {
		return score.Plan{}, err
	}
	plan, err := score.ParsePlan(data)
	if err != nil {
		return plan, err
	}
	return plan, runner.CheckAgent(s.Run, s.PlanMap, s.Job)
}

// MatchFingerprint returns an error if a plan has another fingerprint.
func MatchFingerprint(got, fingerprint string) error {
	if got != fingerprint {
		return fmt.Errorf("the plan's fingerprint is %s, not %s", got, fingerprint)
	}
	return nil
}
