package runner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
)

// MakeMeta makes the metadata of an object that belongs to the run.
func MakeMeta(run *v1alpha1.EvaluationRun, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: run.Namespace, Labels: MakeLabels(run),
		OwnerReferences: makeOwners(run)}
}

// MakeLabels are csenv's own labels, which select the objects of a run.
func MakeLabels(run *v1alpha1.EvaluationRun) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:        v1alpha1.LabelNameValue,
		v1alpha1.LabelInstance:    run.Spec.EnvironmentRef.Name,
		v1alpha1.LabelComponent:   v1alpha1.ComponentRunner,
		v1alpha1.LabelManagedBy:   v1alpha1.LabelManagedByValue,
		v1alpha1.LabelEnvironment: run.Spec.EnvironmentRef.Name,
		v1alpha1.LabelRun:         run.Name,
		LabelRunUID:               string(run.UID),
	}
}

func makeOwners(run *v1alpha1.EvaluationRun) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("EvaluationRun"))}
}
