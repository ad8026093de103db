package evaluation

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// Baseline is the run to compare with. Its fields are nil if it doesn't exist.
type Baseline struct {
	Run   *v1alpha1.EvaluationRun
	Table *score.ScenarioTable
}

// CompareBaseline pairs the scenarios of a complete run with its baseline's. The table is nil if
// the run has none.
func CompareBaseline(run *v1alpha1.EvaluationRun, table *score.ScenarioTable, with Baseline) *v1alpha1.BaselineResult {
	result := &v1alpha1.BaselineResult{Name: run.Spec.BaselineRef.Name}
	compared, err := compareScenarios(run, table, with)
	switch {
	case err != nil:
		result.Message = fmt.Sprintf("No comparison with run %s: %v.", result.Name, err)
		return result
	case compared.Pairs == 0:
		result.Message = "The runs have no scenario in common."
	default:
		result.Delta = score.FormatDecimal(compared.Delta)
		if compared.CI95 != nil {
			result.StandardError, result.CI95 = score.FormatDecimal(*compared.StandardError), newInterval(compared.CI95)
		}
	}
	result.Scenarios = compared.Scenarios
	return result
}

// ComparedCondition reports whether a complete run is compared, by the result of Compare. It is
// Unknown while the baseline may still end.
func ComparedCondition(result v1alpha1.BaselineResult, with Baseline) metav1.Condition {
	of := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return NewCondition(v1alpha1.ConditionCompared, status, reason, message)
	}
	switch {
	case with.Run == nil:
		return of(metav1.ConditionUnknown, v1alpha1.ReasonBaselineNotFound, fmt.Sprintf("There is no run %s yet. The "+
			"comparison follows when it is complete.", result.Name))
	case !HasEnded(with.Run.Status.Conditions):
		return of(metav1.ConditionUnknown, v1alpha1.ReasonWaitingForBaseline, fmt.Sprintf("Run %s has not ended. The "+
			"comparison follows when it is complete.", result.Name))
	case result.Message != "":
		return of(metav1.ConditionFalse, v1alpha1.ReasonNotComparable, result.Message)
	default:
		return of(metav1.ConditionTrue, v1alpha1.ReasonCompared,
			fmt.Sprintf("The mean score differs by %s from that of run %s, over %s.", result.Delta, result.Name,
				FormatCount(result.Scenarios, "scenario")))
	}
}

// AwaitsBaseline reports whether a complete run is still to be compared.
func AwaitsBaseline(conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionCompared)
	return c != nil && c.Status == metav1.ConditionUnknown
}

func compareScenarios(
	run *v1alpha1.EvaluationRun,
	table *score.ScenarioTable,
	with Baseline,
) (score.Comparison, error) {
	none := score.Comparison{}
	switch {
	case table == nil:
		return none, errors.New("this run has no table of its scenarios' scores")
	case with.Run == nil:
		return none, fmt.Errorf("it is not in namespace %s", run.Namespace)
	case !meta.IsStatusConditionTrue(with.Run.Status.Conditions, v1alpha1.ConditionComplete):
		return none, errors.New("it is not complete")
	case with.Table == nil || with.Run.Status.Shards == nil:
		return none, errors.New("it has no table of its scenarios' scores")
	}
	mine, err := NewBasis(run)
	if err != nil {
		return none, err
	}
	theirs, err := NewBasis(with.Run)
	if err != nil {
		return none, err
	}
	if err := score.CheckComparable(mine, theirs); err != nil {
		return none, err
	}
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(with.Run.Status.Shards.Accumulator)); err != nil {
		return none, fmt.Errorf("reading its sums: %w", err)
	}
	if !sums.Holds(with.Table) {
		return none, errors.New("the table of its scenarios' scores was changed")
	}
	return score.Compare(table.Rows(), with.Table.Rows()), nil
}

// NewBasis returns the properties that two runs must share to be compared.
func NewBasis(run *v1alpha1.EvaluationRun) (score.Basis, error) {
	pass, err := PassScore(run)
	if err != nil {
		return score.Basis{}, err
	}
	made := ptr.Deref(run.Status.Provenance, v1alpha1.Provenance{})
	return score.Basis{
		ScenarioDigest: made.ScenarioDigest, GraderVersion: made.GraderVersion, Judge: made.Judge,
		PassScore: pass, Pressure: run.Spec.Pressure == v1alpha1.ResponseTimePressure, Tasks: taskNames(run),
	}, nil
}

// taskNames are the tasks of the spec, or of the status if trainers choose the tasks.
func taskNames(run *v1alpha1.EvaluationRun) []string {
	var names []string
	for _, task := range run.Spec.Tasks {
		names = append(names, task.Name)
	}
	if len(names) > 0 {
		return names
	}
	for _, task := range run.Status.Tasks {
		names = append(names, task.Name)
	}
	return names
}
