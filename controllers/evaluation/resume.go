package evaluation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

// HasNewAttempt reports whether spec.attempt asks for another attempt at a failed run.
func HasNewAttempt(run *v1alpha1.EvaluationRun) bool {
	return meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionFailed) &&
		ptr.Deref(run.Spec.Attempt, 1) > max(run.Status.Attempt, 1)
}

// NextAttempt is the spec.attempt that resumes a failed run.
func NextAttempt(run *v1alpha1.EvaluationRun) int32 {
	return max(ptr.Deref(run.Spec.Attempt, 1), run.Status.Attempt, 1) + 1
}

// HowToResume completes "Correct that, then". Runs of type External can't be resumed.
func HowToResume(run *v1alpha1.EvaluationRun) string {
	if IsExternal(run) {
		return "create another run"
	}
	return fmt.Sprintf("resume the run: set spec.attempt to %d, or use `%s`", NextAttempt(run), ResumeCommand(run))
}

// ResumeCommand is the command that resumes a failed run.
func ResumeCommand(run *v1alpha1.EvaluationRun) string {
	return fmt.Sprintf("csenv run --resume %s -n %s", run.Name, run.Namespace)
}
