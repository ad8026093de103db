// Package apiwrites counts the writes to an API server by the API server's own metrics.
package apiwrites

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Counts are requests by what they ask for, "PUT customersupportenvs/status".
type Counts map[string]float64

// verbs are those of apiserver_request_total that change something.
var verbs = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}

// housekeeping are the API groups in which components write without being asked to: Leases, and the
// API server's own bookkeeping.
var housekeeping = []string{"coordination.k8s.io", "flowcontrol.apiserver.k8s.io"}

// Read takes the metrics of an API server, in Prometheus' text format, and returns the writes that
// it has answered since it started, with any status. Leases and the API server's own bookkeeping
// are left out.
func Read(metrics io.Reader) (Counts, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return nil, fmt.Errorf("parsing the API server's metrics: %w", err)
	}
	counts := Counts{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range m.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if !slices.Contains(verbs, labels["verb"]) || slices.Contains(housekeeping, labels["group"]) {
			continue
		}
		resource := labels["resource"]
		if labels["subresource"] != "" {
			resource += "/" + labels["subresource"]
		}
		counts[labels["verb"]+" "+resource] += m.GetCounter().GetValue()
	}
	return counts, nil
}

// Since is what has been added to earlier counts.
func (c Counts) Since(earlier Counts) Counts {
	added := Counts{}
	for what, n := range c {
		if n -= earlier[what]; n > 0 {
			added[what] = n
		}
	}
	return added
}

// Only keeps the counts of some resources, subresources included.
func (c Counts) Only(resources ...string) Counts {
	kept := maps.Clone(c)
	maps.DeleteFunc(kept, func(what string, _ float64) bool {
		_, resource, _ := strings.Cut(what, " ")
		resource, _, _ = strings.Cut(resource, "/")
		return !slices.Contains(resources, resource)
	})
	return kept
}

// Sum is the number of all writes.
func (c Counts) Sum() float64 {
	total := 0.0
	for _, n := range c {
		total += n
	}
	return total
}

// String lists the counts, the greatest first.
func (c Counts) String() string {
	keys := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		switch {
		case c[a] > c[b]:
			return -1
		case c[a] < c[b]:
			return 1
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = fmt.Sprintf("%s %.0f", key, c[key])
	}
	return strings.Join(parts, ", ")
}
