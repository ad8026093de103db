package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// MakePlanMap contains the plan and the agent for the runners.
func MakePlanMap(run *v1alpha1.EvaluationRun, plan score.Plan) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encoding plan: %w", err)
	}
	agent, err := evaluation.AgentJSON(run.Spec.Agent)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: MakeMeta(run, PlanName(run)),
		Immutable:  new(true),
		Data:       map[string]string{PlanKey: string(data), AgentKey: string(agent)},
	}, nil
}

// DigestInputs is the digest of the plan and the agent in a ConfigMap.
func DigestInputs(planMap *corev1.ConfigMap) string {
	return score.InputsDigest([]byte(planMap.Data[PlanKey]), []byte(planMap.Data[AgentKey]))
}

// CheckAgent returns an error if the ConfigMap's agent is neither the spec's nor the one that the
// Job was created for, which an earlier version may have written differently.
func CheckAgent(run *v1alpha1.EvaluationRun, planMap *corev1.ConfigMap, job *batchv1.Job) error {
	agent, err := evaluation.AgentJSON(run.Spec.Agent)
	if err != nil {
		return err
	}
	if planMap.Data[AgentKey] == string(agent) {
		return nil
	}
	if job != nil && slices.ContainsFunc(job.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == Container && slices.Contains(c.Args, inputsFlag+DigestInputs(planMap))
	}) {
		return nil
	}
	return errors.New("the agent is not the run's")
}
