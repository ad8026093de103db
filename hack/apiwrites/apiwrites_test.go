package apiwrites

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const metrics = `
# TYPE apiserver_request_total counter
apiserver_request_total{verb="GET",group="",resource="pods",subresource="",code="200"} 900
apiserver_request_total{verb="PUT",group="csenv.dev",resource="customersupportenvs",subresource="status",code="200"} 7
apiserver_request_total{verb="PUT",group="csenv.dev",resource="customersupportenvs",subresource="status",code="409"} 2
apiserver_request_total{verb="PUT",group="coordination.k8s.io",resource="leases",subresource="",code="200"} 100
apiserver_request_total{verb="PATCH",group="flowcontrol.apiserver.k8s.io",resource="flowschemas",subresource="status",code="200"} 8
apiserver_request_total{verb="POST",group="",resource="pods",subresource="",code="201"} 30
`

func TestRead(t *testing.T) {
	counts, err := ParseMetrics(strings.NewReader(metrics))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Counts{"PUT customersupportenvs/status": 9, "POST pods": 30}, counts); diff != "" {
		t.Error(diff)
	}
	if got := counts.String(); got != "POST pods 30, PUT customersupportenvs/status 9" {
		t.Errorf("listed as %q", got)
	}
	if added := counts.Since(Counts{"POST pods": 30, "PUT customersupportenvs/status": 4}); added.Sum() != 5 ||
		len(added) != 1 {
		t.Errorf("added %v, want the 5 updates", added)
	}
	if diff := cmp.Diff(Counts{"PUT customersupportenvs/status": 9},
		counts.Only("customersupportenvs", "jobs")); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseMetrics(strings.NewReader("{")); err == nil {
		t.Error("no error for an invalid input")
	}
}
