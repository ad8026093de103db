package operator

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/hack/apiwrites"
)

// The file that is checked in names every scenario and nothing else.
func TestSettings(t *testing.T) {
	all, err := readSettings("ranges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(listScenarios()) {
		t.Errorf("%d scenarios have settings, want those of %d", len(all), len(listScenarios()))
	}
	for name, s := range all {
		if len(s.Ranges) == 0 {
			t.Errorf("scenario %s holds nothing to a range", name)
		}
	}
}

func TestSettingsFaults(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, want string }{
		"an unknown field": {"pools: {deadline: 5m, pols: 3}", `unknown field "pols"`},
		"no deadline":      {"pools: {pools: 3}", "give it a minute"},
		"a range of nothing": {"pools: {deadline: 5m, ranges: {full poll: {unit: ms}}}",
			`"full poll" has neither min nor max`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ranges.yaml")
			if err := os.WriteFile(path, []byte(tc.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readSettings(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	if all, err := selectScenarios(nil); err != nil || len(all) != len(listScenarios()) {
		t.Errorf("without names %d scenarios and %v", len(all), err)
	}
	if one, err := selectScenarios([]string{"pools"}); err != nil || len(one) != 1 || one[0].name != "pools" {
		t.Errorf("scenario %+v and %v", one, err)
	}
	if _, err := selectScenarios([]string{"pools", "ponds"}); err == nil || !strings.Contains(err.Error(), `"ponds"`) {
		t.Errorf("error %v, want the scenario that isn't there", err)
	}
}

func TestReport(t *testing.T) {
	figures := []figure{{"full poll", 1.5, "s", "all pods"}, {"memory", 90, "MiB", ""}}
	for name, tc := range map[string]struct {
		ranges map[string]span
		kept   bool
		want   string
	}{
		"no ranges":    {nil, true, "all pods"},
		"kept":         {map[string]span{"full poll": {Max: new(2.0), Unit: "s"}}, true, "at most 2 s"},
		"at the bound": {map[string]span{"memory": {Max: new(90.0), Unit: "MiB"}}, true, "ok"},
		"too much":     {map[string]span{"memory": {Max: new(89.0), Unit: "MiB"}}, false, "MISSED"},
		"too little":   {map[string]span{"memory": {Min: new(91.0), Unit: "MiB"}}, false, "at least 91 MiB"},
		"one kept, one missed": {map[string]span{"memory": {Min: new(1.0), Max: new(2.0), Unit: "MiB"},
			"full poll": {Max: new(2.0), Unit: "s"}}, false, "1 to 2 MiB"},
		"a figure that is NaN": {map[string]span{"nothing": {Max: new(2.0), Unit: "s"}}, false, "MISSED"},
		"a range of no figure": {map[string]span{"meory": {Max: new(2.0), Unit: "s"}}, false,
			`no figure is called "meory"`},
		"a range of other unit": {map[string]span{"memory": {Max: new(2.0), Unit: "KiB"}}, false, `is in "KiB"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			kept, err := reportFigures(&out, scenario{name: "pools"}, append(figures, figure{"nothing", math.NaN(), "s", ""}),
				tc.ranges)
			said := out.String()
			if err != nil {
				said = err.Error()
			}
			if kept != tc.kept || !strings.Contains(said, tc.want) {
				t.Errorf("kept %t, said\n%s\nwant %t and %q", kept, said, tc.kept, tc.want)
			}
		})
	}
}

const exposition = `
# TYPE controller_runtime_reconcile_time_seconds histogram
controller_runtime_reconcile_time_seconds_bucket{controller="environment",le="0.01"} 10
controller_runtime_reconcile_time_seconds_bucket{controller="environment",le="0.1"} 90
controller_runtime_reconcile_time_seconds_bucket{controller="environment",le="+Inf"} 100
controller_runtime_reconcile_time_seconds_sum{controller="environment"} 3
controller_runtime_reconcile_time_seconds_count{controller="environment"} 100
controller_runtime_reconcile_time_seconds_bucket{controller="run",le="0.01"} 55
controller_runtime_reconcile_time_seconds_bucket{controller="run",le="+Inf"} 55
controller_runtime_reconcile_time_seconds_sum{controller="run"} 3
controller_runtime_reconcile_time_seconds_count{controller="run"} 55
`

func TestSamples(t *testing.T) {
	s, err := parseSamples(strings.NewReader(exposition))
	if err != nil {
		t.Fatal(err)
	}
	if n := bucketsOf(s, reconcileSeconds, "controller", "environment").count(); n != 100 {
		t.Errorf("%v passes, want those of one controller", n)
	}
}

func TestAuditedWrites(t *testing.T) {
	got, err := auditedWrites(strings.NewReader(`{"kind":"Event","verb":"patch","objectRef":{"resource":"pods"}}
{"verb":"update","objectRef":{"resource":"evaluationruns","subresource":"status"},"responseStatus":{"code":409}}
{"verb":"patch","objectRef":{"resource":"pods"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(apiwrites.Counts{"patch pods": 2, "update evaluationruns/status": 1}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := auditedWrites(strings.NewReader(`{"verb":`)); err == nil {
		t.Error("half a line is counted")
	}
}

func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	for name, tc := range map[string]struct {
		buckets buckets
		q, want float64
	}{
		"within the first bucket":  {buckets{0.01: 10, 0.1: 10, inf: 10}, 0.5, 0.005},
		"within the second bucket": {buckets{0.01: 10, 0.1: 90, inf: 100}, 0.5, 0.055},
		"an empty bucket between":  {buckets{0.01: 10, 0.1: 10, 1: 20, inf: 20}, 0.75, 0.55},
		"above the last bucket":    {buckets{0.01: 10, 0.1: 90, inf: 100}, 0.99, 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.buckets.quantile(tc.q); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("quantile %v, want %v", got, tc.want)
			}
		})
	}
	if got := (buckets{}).quantile(0.5); !math.IsNaN(got) {
		t.Errorf("a quantile of nothing is %v", got)
	}
	if diff := cmp.Diff(buckets{0.1: 6, inf: 11}, buckets{0.1: 5, inf: 9}.plus(buckets{0.1: 1, inf: 2})); diff != "" {
		t.Error(diff)
	}
	earlier, now := buckets{0.1: 5, inf: 9}, buckets{0.1: 5, inf: 12}
	if diff := cmp.Diff(buckets{0.1: 0, inf: 3}, now.since(earlier)); diff != "" {
		t.Error(diff)
	}
}

// Each pod answers at an address of its own for as long as it runs, and a sweep ends with the last
// of them.
func TestFleet(t *testing.T) {
	f, err := newFleet(idleReport(60), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	addresses := map[types.UID]string{}
	for _, pod := range []types.UID{"a", "b"} {
		address, err := f.start(t.Context(), pod, http.NotFound)
		if err != nil {
			t.Skipf("port 9000 is taken: %v", err)
		}
		addresses[pod] = address
	}
	again, err := f.start(t.Context(), "a", http.NotFound)
	if err != nil || again != addresses["a"] || again == addresses["b"] {
		t.Errorf("the same pod at %q and %q (%v), the other one at %q", addresses["a"], again, err, addresses["b"])
	}
	s := f.beginSweep()
	ask := func(pod types.UID) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addresses[pod]+":9000/stats", http.NoBody)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for range 2 {
		if body, err := ask("a"); err != nil || !strings.Contains(body, `"sessions":{"active":0,"capacity":2000}`) {
			t.Fatalf("answer %q, error %v", body, err)
		}
	}
	select {
	case <-s.done:
		t.Fatal("the round has ended without the other pod")
	default:
	}
	f.busy.Store(true)
	if body, err := ask("b"); err != nil || strings.Contains(body, `"active":0,`) {
		t.Fatalf("answer %q under load, error %v", body, err)
	}
	<-s.done
	if s.pods != 2 || s.took() <= 0 {
		t.Errorf("a round over %d pods in %s", s.pods, s.took())
	}
	f.stop("a")
	if _, err := ask("a"); err == nil {
		t.Error("a pod that is gone answers")
	}
}

func TestIsSettled(t *testing.T) {
	pool := settled(3)
	if !isSettled(pool, 3) {
		t.Fatal("a pool that is rolled out isn't settled")
	}
	if isSettled(pool, 4) {
		t.Error("a pool with a pod missing is settled")
	}
	pool.Status.Sessions.Capacity--
	if isSettled(pool, 3) {
		t.Error("a pool of which a pod hasn't answered is settled")
	}
}

// settled is a pool of that many pods with nothing left to do.
func settled(pods int32) v1alpha1.CustomerSupportEnv {
	pool := v1alpha1.CustomerSupportEnv{Status: v1alpha1.CustomerSupportEnvStatus{
		ReadyReplicas: new(pods), Sessions: &v1alpha1.SessionCounts{Capacity: int64(pods) * sessionsPerPod},
		Tasks: []v1alpha1.OfferedTask{{Name: "ticket-resolve"}},
	}}
	pool.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue},
		{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse},
	}
	return pool
}
