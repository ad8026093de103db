package v1alpha1

// Decimal is a decimal number such as 0.7312, with four digits after the point unless noted.
// +kubebuilder:validation:MaxLength=16
type Decimal = string

// Count is a number of things, at least 0.
// +kubebuilder:validation:Minimum=0
type Count = int64

// Score summarises scores from 0 to 1, as decimals of four digits.
type Score struct {
	// mean is the mean over the episodes.
	// +required
	Mean Decimal `json:"mean,omitempty"`

	// standardError is the standard error of the mean, clustered by scenario. Unset with fewer than
	// two scenarios.
	// +optional
	StandardError Decimal `json:"standardError,omitempty"`

	// ci95 is the 95 % t-interval of the mean over scenarios. Unset with fewer than two scenarios.
	// +optional
	CI95 *Interval `json:"ci95,omitempty"`

	// min is the lowest score of an episode.
	// +optional
	Min Decimal `json:"min,omitempty"`

	// p50 is the median, from a histogram of 50 bins.
	// +optional
	P50 Decimal `json:"p50,omitempty"`

	// max is the highest score of an episode.
	// +optional
	Max Decimal `json:"max,omitempty"`
}

// BaselineResult compares a run with another, paired by scenario: each scenario's mean in this run
// minus its mean in the other.
type BaselineResult struct {
	// name is the name of the other run.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// scenarios is the number of scenarios that both runs played.
	// +required
	Scenarios Count `json:"scenarios"`

	// delta is the mean difference, positive if this run is better.
	// +optional
	Delta Decimal `json:"delta,omitempty"`

	// standardError is the standard error of delta.
	// +optional
	StandardError Decimal `json:"standardError,omitempty"`

	// ci95 is the 95 % t-interval of delta.
	// +optional
	CI95 *Interval `json:"ci95,omitempty"`

	// message explains why the runs can't be compared. Unset if they can.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// Interval is an interval of scores.
type Interval struct {
	// low is the lower bound of the interval.
	// +required
	Low Decimal `json:"low,omitempty"`

	// high is the upper bound of the interval.
	// +required
	High Decimal `json:"high,omitempty"`
}

// PassHat is pass^k for one k.
type PassHat struct {
	// k is the number of trials that must all pass.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	// +required
	K int32 `json:"k,omitempty"`

	// value is the estimate, from 0 to 1.
	// +required
	Value Decimal `json:"value,omitempty"`

	// scenarios is the number of pairs of task and scenario with at least k trials, over which the
	// estimate is averaged.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Scenarios int64 `json:"scenarios,omitempty"`
}

// TaskResult are the figures of one task.
type TaskResult struct {
	// name is the name of the task.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// episodes is the number of scored and failed episodes of the task.
	// +required
	Episodes Count `json:"episodes"`

	// score summarises the scores of the task's episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate is the pass rate of the task's episodes, from 0 to 1.
	// +optional
	PassRate Decimal `json:"passRate,omitempty"`

	// dimensions are the dimensions of the task's rubric.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Dimensions []DimensionResult `json:"dimensions,omitempty"`
}

// DimensionResult is the average result of one dimension of a rubric.
type DimensionResult struct {
	// name is the name of the dimension.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// mean is the mean number of points per episode, negative for penalties.
	// +required
	Mean Decimal `json:"mean,omitempty"`

	// max is the mean of the maximum points per episode.
	// +required
	Max Decimal `json:"max,omitempty"`
}

// CategoryResult are the figures of one category of scenarios.
type CategoryResult struct {
	// name is the name of the category.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// episodes is the number of scored and failed episodes of the category.
	// +required
	Episodes Count `json:"episodes"`

	// score summarises the scores of the category's episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate is the pass rate of the category's episodes, from 0 to 1.
	// +optional
	PassRate Decimal `json:"passRate,omitempty"`
}
