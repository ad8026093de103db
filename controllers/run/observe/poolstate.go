package observe

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/score"
)

// PoolState is what a run finds of its pool.
type PoolState int

// The states in the order in which they are looked for.
const (
	PoolForbidden    PoolState = iota + 1 // no pool of another namespace admits the run
	PoolMissing                           // there is no pool in the run's namespace
	PoolNeedsToken                        // the runners can't read the pool's token
	PoolNew                               // it has no status
	PoolNotAvailable                      // it accepts no sessions
	PoolUnreachable                       // its report can't be read
	PoolWithoutKey                        // it has not reported its scenarios and ledger key
	PoolReady
)

// PoolState doesn't tell a missing pool from one that doesn't admit the run's namespace.
func (s Snapshot) PoolState() PoolState {
	switch {
	case s.Env == nil && evaluation.PoolOf(s.Run).Namespace != s.Run.Namespace:
		return PoolForbidden
	case s.Env == nil:
		return PoolMissing
	case s.Env.Spec.Access.TokenSecretRef != nil && runner.FindPoolToken(s.Run, s.Env) == nil && !IsExternal(s.Run):
		return PoolNeedsToken
	}
	available := meta.FindStatusCondition(s.Env.Status.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case available == nil:
		return PoolNew
	case available.Status != metav1.ConditionTrue:
		return PoolNotAvailable
	case s.ReportErr != nil:
		return PoolUnreachable
	}
	if _, err := score.ParsePublicKey(s.Env.Status.LedgerPublicKey); err != nil || s.Env.Status.ScenarioDigest == "" {
		return PoolWithoutKey
	}
	return PoolReady
}
