// Package runner builds the Job whose pods play a run, with what they read, and reads what has
// become of the Job and of its pods. It is pure.
package runner

import (
	"maps"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// MakeJob plays some shards of a plan: one index for each. The pool is nil if there is none.
func MakeJob(run *v1alpha1.EvaluationRun, env *v1alpha1.CustomerSupportEnv, o Options,
	spec JobSpec) *batchv1.Job {
	shards := int32(spec.Shards.Len()) //nolint:gosec // at most as many as the pool has scenarios
	annotations := map[string]string{AnnotationShards: spec.Shards.String(),
		AnnotationJobAttempt: strconv.Itoa(int(spec.JobAttempt))}
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: MakeLabels(run), Annotations: maps.Clone(annotations),
			Finalizers: []string{SummaryFinalizer}},
		Spec: makePod(run, FindPoolToken(run, env), o, spec),
	}
	if spec.Continues {
		template.Annotations[annotationContinues] = "1"
	}
	for file, text := range spec.Inputs {
		template.Annotations[annotationOf(file)] = text
	}
	annotations[AnnotationQueue] = run.Labels[LabelQueue]
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: run.Name, Namespace: run.Namespace, Labels: makeJobLabels(run), OwnerReferences: makeOwners(run),
			Annotations: annotations,
		},
		Spec: batchv1.JobSpec{
			CompletionMode:       new(batchv1.IndexedCompletion),
			Completions:          new(shards),
			Parallelism:          new(LimitParallelism(run, shards)),
			Suspend:              new(spec.Suspended),
			BackoffLimitPerIndex: new(ReadBackoffLimit(run)),
			// A run with a missing shard can't complete, so the rest needn't be played.
			MaxFailedIndexes: new(int32(0)),
			PodFailurePolicy: makePodFailurePolicy(),
			Template:         *pods.FinishTemplate(template, Container, allowVariables(run.Spec.Template)),
		},
	}
}

// makeJobLabels include the run's, so that the Job is queued and selected like its run. Pods have
// the labels of MakeLabels and of spec.template only, because Services select pods by any label.
func makeJobLabels(run *v1alpha1.EvaluationRun) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, run.Labels)
	maps.Copy(labels, MakeLabels(run))
	return labels
}

// makePodFailurePolicy ends the Job when a runner reports that the agent's endpoint refuses every
// request, and ignores pods that a drain, a preemption or a suspension stopped.
func makePodFailurePolicy() *batchv1.PodFailurePolicy {
	exits := func(action batchv1.PodFailurePolicyAction, code int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(Container), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values: []int32{code},
			}}
	}
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		},
		exits(batchv1.PodFailurePolicyActionIgnore, score.ExitStopped),
		exits(batchv1.PodFailurePolicyActionFailJob, score.ExitAgentRefused),
	}}
}
