package local

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
)

// metered counts 100 tokens of prompts and 7 of answers for each request.
type metered struct {
	policy.Policy
	used     score.Tokens
	requests *atomic.Int64
}

func (m *metered) Usage() score.Tokens { return m.used }

func (m *metered) Act(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
	m.requests.Add(1)
	m.used.Add(score.Tokens{Prompt: 100, Completion: 7})
	return m.Policy.Act(ctx, turn)
}

// A budget of 60 requests stops after 60, with any parallelism, and the episodes that were not
// played have no score. The tokens are within the budget.
func TestBudgetStopsEval(t *testing.T) {
	const answers = 60
	for name, limit := range map[string]func(*v1alpha1.EvaluationRunSpec){
		"tokens": func(s *v1alpha1.EvaluationRunSpec) { s.Budget = &v1alpha1.Budget{MaxTokens: new(int64(answers * 107))} },
		"money": func(s *v1alpha1.EvaluationRunSpec) {
			s.Budget, s.Prices = &v1alpha1.Budget{MaxCost: "0.0102"}, &v1alpha1.Prices{Input: "1", Output: "10"}
		},
	} {
		for _, parallelism := range []int32{1, 4, 16} {
			for _, concurrency := range []int32{1, 16} {
				t.Run(fmt.Sprintf("%s, %d, %d", name, parallelism, concurrency), func(t *testing.T) {
					run := testRun(func(run *v1alpha1.EvaluationRun) {
						run.Spec.Tasks = []v1alpha1.TaskSelection{{Name: "ticket-classify", Trials: 5}}
						run.Spec.Parallelism, run.Spec.Concurrency = &parallelism, &concurrency
						limit(&run.Spec)
					})
					o, requests := options(t, policy.Heuristic), &atomic.Int64{}
					heuristic := o.Agent
					o.Agent = func(planned score.PlannedEpisode) (policy.Policy, error) {
						agent, err := heuristic(planned)
						return &metered{Policy: agent, requests: requests}, err
					}
					if err := Play(t.Context(), run, o); err != nil {
						t.Fatal(err)
					}
					e := run.Status.Episodes
					if requests.Load() != answers || e.Scored+e.Failed != answers || e.Errored != 0 || e.Total != 200 {
						t.Errorf("%d requests, episodes %+v", requests.Load(), e)
					}
					failed := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionFailed)
					if failed == nil || failed.Reason != v1alpha1.ReasonBudgetExceeded ||
						!meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionWithinBudget) {
						t.Errorf("conditions %+v", run.Status.Conditions)
					}
				})
			}
		}
	}
}
