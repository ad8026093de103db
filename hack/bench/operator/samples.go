package operator

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/kubernetes"

	"github.com/csenv/csenv/hack/apiwrites"
)

// samples are the metrics of one scrape, by name.
type samples map[string]*dto.MetricFamily

// serverWrites returns the writes that the API server has answered so far.
func serverWrites(ctx context.Context, api *kubernetes.Clientset) (apiwrites.Counts, error) {
	data, err := api.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return apiwrites.ParseMetrics(bytes.NewReader(data))
}

// auditPolicy has the API server log what the operator writes, without its Lease.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, resources: [{group: coordination.k8s.io}]}
- {level: Metadata, users: [` + operatorUser + `], verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range m.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

// buckets are a histogram's cumulative counts by upper bound.
type buckets map[float64]float64

// bucketsOf sums a histogram's series up whose label has the value.
func bucketsOf(s samples, name, label, value string) buckets {
	b := buckets{}
	for _, m := range s[name].GetMetric() {
		if labelsOf(m)[label] != value {
			continue
		}
		for _, bucket := range m.GetHistogram().GetBucket() {
			b[bucket.GetUpperBound()] += float64(bucket.GetCumulativeCount())
		}
		b[math.Inf(1)] += float64(m.GetHistogram().GetSampleCount()) - b[math.Inf(1)]
	}
	return b
}

func (b buckets) plus(other buckets) buckets {
	sum := maps.Clone(other)
	for bound, n := range b {
		sum[bound] += n
	}
	return sum
}

func (b buckets) since(earlier buckets) buckets {
	added := buckets{}
	for bound, n := range b {
		added[bound] = n - earlier[bound]
	}
	return added
}

// count is the number of observations.
func (b buckets) count() float64 { return b[math.Inf(1)] }

// quantile is estimated as Prometheus' histogram_quantile does: linearly within the bucket. It is
// NaN without observations, and the greatest finite bound beyond that.
func (b buckets) quantile(q float64) float64 {
	if b.count() == 0 {
		return math.NaN()
	}
	rank, lower, below := q*b.count(), 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(b)) {
		if n := b[bound]; n >= rank && n > below {
			if math.IsInf(bound, 1) {
				return lower
			}
			return lower + (bound-lower)*(rank-below)/(n-below)
		}
		lower, below = bound, b[bound]
	}
	return lower
}
