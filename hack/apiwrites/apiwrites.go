// Package apiwrites counts the writes that an API server reports in its metrics.
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

// Counts is the number of requests by verb and resource, for example "PUT
// customersupportenvs/status".
type Counts map[string]float64

// verbs are the values of the label verb of apiserver_request_total that mean a write.
var verbs = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}

// housekeeping lists API groups that components write to at regular intervals: Leases, and the API
// server's flow control.
var housekeeping = []string{"coordination.k8s.io", "flowcontrol.apiserver.k8s.io"}

// ParseMetrics parses the metrics of an API server, in Prometheus' text format, and returns the
// writes since the API server started, with any status. It omits the groups of housekeeping.
func ParseMetrics(metrics io.Reader) (Counts, error) {
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

// Since returns the difference to earlier counts.
func (c Counts) Since(earlier Counts) Counts {
	added := Counts{}
	for what, n := range c {
		if n -= earlier[what]; n > 0 {
			added[what] = n
		}
	}
	return added
}

// Only returns the counts of the given resources and their subresources.
func (c Counts) Only(resources ...string) Counts {
	kept := maps.Clone(c)
	maps.DeleteFunc(kept, func(what string, _ float64) bool {
		_, resource, _ := strings.Cut(what, " ")
		resource, _, _ = strings.Cut(resource, "/")
		return !slices.Contains(resources, resource)
	})
	return kept
}

// Sum returns the number of all writes.
func (c Counts) Sum() float64 {
	total := 0.0
	for _, n := range c {
		total += n
	}
	return total
}

// String lists the counts in descending order.
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
