package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// maxInJob bounds what a Job contains of the inputs, in bytes: each of its pods has a copy.
const maxInJob = 8 << 10

// MakeInputs returns the plan and the agent that runners read, by the names of their files.
func MakeInputs(run *v1alpha1.EvaluationRun, plan score.Plan) (map[string]string, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encoding plan: %w", err)
	}
	agent, err := evaluation.AgentJSON(run.Spec.Agent)
	if err != nil {
		return nil, err
	}
	return map[string]string{PlanKey: string(data), AgentKey: string(agent)}, nil
}

// FitsJob reports whether inputs are small enough for the Job, which saves the ConfigMap.
func FitsJob(inputs map[string]string) bool {
	return len(inputs[PlanKey])+len(inputs[AgentKey]) <= maxInJob
}

// MakePlanMap contains the inputs of runners if their Job doesn't.
func MakePlanMap(run *v1alpha1.EvaluationRun, inputs map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: MakeMeta(run, PlanName(run)), Immutable: new(true), Data: inputs}
}

// annotationOf is the annotation of a runner's pod with one of its inputs.
func annotationOf(file string) string { return "csenv.dev/" + file }

// ReadInputs reads the inputs in the annotations of a pod, or of a Job's pods. It returns nil if
// they are in a ConfigMap.
func ReadInputs(pod metav1.Object) map[string]string {
	inputs := map[string]string{}
	for _, file := range []string{PlanKey, AgentKey} {
		text, found := pod.GetAnnotations()[annotationOf(file)]
		if !found {
			return nil
		}
		inputs[file] = text
	}
	return inputs
}

// makeInputsVolume has the inputs as files: of the pod's annotations, or of the ConfigMap.
func makeInputsVolume(run *v1alpha1.EvaluationRun, inputs map[string]string) corev1.Volume {
	if inputs == nil {
		return corev1.Volume{Name: planVolume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{
				Name: PlanName(run)}},
		}}
	}
	source := &corev1.DownwardAPIVolumeSource{}
	for _, file := range slices.Sorted(maps.Keys(inputs)) {
		source.Items = append(source.Items, corev1.DownwardAPIVolumeFile{Path: file,
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.annotations['%s']",
				annotationOf(file))}})
	}
	return corev1.Volume{Name: planVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: source}}
}

// DigestInputs is the digest of inputs.
func DigestInputs(inputs map[string]string) string {
	return score.InputsDigest([]byte(inputs[PlanKey]), []byte(inputs[AgentKey]))
}

// CheckAgent returns an error if the agent of stored inputs is neither the spec's nor the one that
// the Job was created for, which an earlier version may have written differently.
func CheckAgent(run *v1alpha1.EvaluationRun, inputs map[string]string, job *batchv1.Job) error {
	agent, err := evaluation.AgentJSON(run.Spec.Agent)
	if err != nil {
		return err
	}
	if inputs[AgentKey] == string(agent) {
		return nil
	}
	if job != nil && slices.ContainsFunc(job.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == Container && slices.Contains(c.Args, inputsFlag+DigestInputs(inputs))
	}) {
		return nil
	}
	return errors.New("the agent is not the run's")
}
