package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"

	"github.com/csenv/csenv/hack/apiwrites"
)

// samples are the metrics of one scrape, by name.
type samples map[string]*dto.MetricFamily

func parseSamples(r io.Reader) (samples, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return families, nil
}

// serverWrites returns the writes that the API server has answered so far.
func serverWrites(ctx context.Context, api *kubernetes.Clientset) (apiwrites.Counts, error) {
	data, err := api.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return apiwrites.Read(bytes.NewReader(data))
}

// operatorWrites returns the requests that the operator's own client has made, by method, reads
// left out.
func operatorWrites(s samples) apiwrites.Counts {
	counts := apiwrites.Counts{}
	for _, m := range s["rest_client_requests_total"].GetMetric() {
		if method := labelsOf(m)["method"]; method != "GET" {
			counts[method] += m.GetCounter().GetValue()
		}
	}
	return counts
}

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
