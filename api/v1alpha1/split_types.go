package v1alpha1

import "strings"

// ScenarioSplit names a part of the scenarios.
// +kubebuilder:validation:Enum=Train;Dev;Test;Private
type ScenarioSplit string

// The splits of the scenarios. Those of packs are mostly Private.
const (
	// TrainSplit is public, to train on.
	TrainSplit ScenarioSplit = "Train"
	// DevSplit is public, to compare versions of an agent on.
	DevSplit ScenarioSplit = "Dev"
	// TestSplit is public, to measure on.
	TestSplit ScenarioSplit = "Test"
	// PrivateSplit is not published.
	PrivateSplit ScenarioSplit = "Private"
)

// Name is the name of the split in scenarios, in reports of servers and in flags.
func (s ScenarioSplit) Name() string {
	switch s {
	case TrainSplit, DevSplit, TestSplit:
		return "public-" + strings.ToLower(string(s))
	default:
		return strings.ToLower(string(s))
	}
}

// SplitNamed returns the split with a name, the API's or Name's, in any case of letters. It returns
// "" if there is none.
func SplitNamed(name string) ScenarioSplit {
	for _, split := range []ScenarioSplit{TrainSplit, DevSplit, TestSplit, PrivateSplit} {
		if strings.EqualFold(split.Name(), name) || strings.EqualFold(string(split), name) {
			return split
		}
	}
	return ""
}
