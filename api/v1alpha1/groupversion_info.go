// Package v1alpha1 defines the API of csenv.dev: CustomerSupportEnv, a pool of environment servers,
// and EvaluationRun, an agent's episodes on such a pool and their aggregated score.
// +kubebuilder:object:generate=true
// +groupName=csenv.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: "csenv.dev", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add this package's kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CustomerSupportEnv{}, &CustomerSupportEnvList{},
		&EvaluationRun{}, &EvaluationRunList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
