package v1alpha1

import (
)

// Score describes scores from 0 to 1, as decimals of four digits.
type Score struct {
	// mean over the episodes.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Mean string `json:"mean,omitempty"`

	// standardError of the mean, clustered by scenario. Unset with fewer than two scenarios.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	StandardError string `json:"standardError,omitempty"`

	// ci95 is the 95 % t-interval of the mean over scenarios. Unset with fewer than two scenarios.
	// +optional
	CI95 *Interval `json:"ci95,omitempty"`

	// min is the lowest score of an episode.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Min string `json:"min,omitempty"`

	// p50 is the median, from a histogram of 50 bins.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	P50 string `json:"p50,omitempty"`

	// max is the highest score of an episode.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Max string `json:"max,omitempty"`
}

// BaselineResult compares a run with another, paired by scenario: each scenario's mean of this run
// less that of the other.
type BaselineResult struct {
	// name of the other run.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// scenarios is the number of scenarios that both runs played.
	// +kubebuilder:validation:Minimum=0
	// +required
	Scenarios int64 `json:"scenarios"`

	// delta is the mean difference, a decimal of four digits. Positive where this run is better.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Delta string `json:"delta,omitempty"`

	// standardError of delta.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	StandardError string `json:"standardError,omitempty"`

	// ci95 is the 95 % t-interval of delta.
	// +optional
	CI95 *Interval `json:"ci95,omitempty"`

	// message says why the runs can't be compared. Unset where they can.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// Interval is an interval of scores.
type Interval struct {
	// low end of the interval.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Low string `json:"low,omitempty"`

	// high end of the interval.
	// +kubebuilder:validation:MaxLength=16
	// +required
	High string `json:"high,omitempty"`
}

// PassHat is pass^k for one k.
type PassHat struct {
	// k is the number of trials that must all pass.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	// +required
	K int32 `json:"k,omitempty"`

	// value is the estimate, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Value string `json:"value,omitempty"`
}

// TaskResult are the figures of one task.
type TaskResult struct {
	// name of the task.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// episodes is the number of scored and failed episodes of the task.
	// +kubebuilder:validation:Minimum=0
	// +required
	Episodes int64 `json:"episodes"`

	// score of the task's episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate of the task's episodes, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	PassRate string `json:"passRate,omitempty"`

	// dimensions are the parts of the task's rubric.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Dimensions []DimensionResult `json:"dimensions,omitempty"`
}

// DimensionResult is what one part of a rubric earned on average.
type DimensionResult struct {
	// name of the dimension.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// mean points earned by an episode, four decimals. Negative for penalties.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Mean string `json:"mean,omitempty"`

	// max is the mean of the points that the episodes offered, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +required
	Max string `json:"max,omitempty"`
}

// CategoryResult are the figures of one category of scenarios.
type CategoryResult struct {
	// name of the category.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// episodes is the number of scored and failed episodes of the category.
	// +kubebuilder:validation:Minimum=0
	// +required
	Episodes int64 `json:"episodes"`

	// score of the category's episodes.
	// +optional
	Score *Score `json:"score,omitempty"`

	// passRate of the category's episodes, 0 to 1, four decimals.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	PassRate string `json:"passRate,omitempty"`
}
