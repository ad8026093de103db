package operator

import (
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// settings are a scenario's part of ranges.yaml.
type settings struct {
	// Deadline bounds the scenario.
	Deadline metav1.Duration `json:"deadline"`
	// Pools and PodsPerPool are how many there are of each.
	Pools       int   `json:"pools"`
	PodsPerPool int32 `json:"podsPerPool"`
	// MaxReplicas is the maximum of autoscaled pools, PodsPerPool their minimum.
	MaxReplicas int32 `json:"maxReplicas"`
	// AnswerDelay is what a server takes to answer /stats.
	AnswerDelay metav1.Duration `json:"answerDelay"`
	// Rest and Load are how long is measured without and with changes.
	Rest metav1.Duration `json:"rest"`
	Load metav1.Duration `json:"load"`
	// Scenarios is the number of scenarios of each task that servers offer.
	Scenarios int `json:"scenarios"`
	// Trials are how often a large run plays each scenario. Runs and External, of trainers, go on
	// at the same time.
	Trials   int `json:"trials"`
	Runs     int `json:"runs"`
	External int `json:"external"`
	// Ranges are by name of the figure.
	Ranges map[string]span `json:"ranges"`
}

// span is what a figure may be, in its unit.
type span struct {
	Min  *float64 `json:"min"`
	Max  *float64 `json:"max"`
	Unit string   `json:"unit"`
}

func (s span) String() string {
	switch {
	case s.Min != nil && s.Max != nil:
		return fmt.Sprintf("%g to %g %s", *s.Min, *s.Max, s.Unit)
	case s.Min != nil:
		return fmt.Sprintf("at least %g %s", *s.Min, s.Unit)
	default:
		return fmt.Sprintf("at most %g %s", *s.Max, s.Unit)
	}
}

// readSettings reads the settings of all scenarios, by name.
func readSettings(path string) (map[string]settings, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading ranges: %w", err)
	}
	all := map[string]settings{}
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		return nil, fmt.Errorf("reading ranges from %s: %w", path, err)
	}
	for _, s := range listScenarios() {
		if err := all[s.name].validate(); err != nil {
			return nil, fmt.Errorf("reading ranges from %s: scenario %s: %w", path, s.name, err)
		}
	}
	return all, nil
}

func (s settings) validate() error {
	if s.Deadline.Duration < time.Minute {
		return fmt.Errorf("deadline %s: give it a minute at least", s.Deadline.Duration)
	}
	for name, r := range s.Ranges {
		if r.Min == nil && r.Max == nil {
			return fmt.Errorf("range %q has neither min nor max", name)
		}
	}
	return nil
}
