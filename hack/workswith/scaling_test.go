package workswith_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

const metricsAPI = "external.metrics.k8s.io"

// scaling lets the HorizontalPodAutoscaler scale a pool on a metric.
func (c cluster) scaling(t *testing.T) {
	env := newPool(func(env *v1alpha1.CustomerSupportEnv) { env.Name = "support" })
	if err := c.client.Create(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	// The operator's part.
	env.Status.Replicas, env.Status.Selector = new(int32(1)), "csenv.dev/environment=support"
	if err := c.client.Status().Update(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	c.publish(t, "csenv_pool_sessions_used", "pool=support", 4000)
	c.create(t, "hpa/hpa.yaml")
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	wire.AwaitCondition(t, "the autoscaler scales the pool", func() bool {
		return c.client.Get(t.Context(), client.ObjectKeyFromObject(env), env) == nil && *env.Spec.Replicas != 1
	})
	if *env.Spec.Replicas != 3 {
		t.Errorf("%d servers for 4,000 sessions, want 3", *env.Spec.Replicas)
	}
	// The API server may refuse a single query while it checks whether the adapter is available.
	wire.AwaitCondition(t, "the autoscaler reads the metric", func() bool {
		return c.client.Get(t.Context(), client.ObjectKeyFromObject(env), hpa) == nil &&
			slices.ContainsFunc(hpa.Status.Conditions, func(condition autoscalingv2.HorizontalPodAutoscalerCondition) bool {
				return condition.Type == autoscalingv2.ScalingActive && condition.Status == corev1.ConditionTrue
			})
	})
	if err := c.client.Delete(t.Context(), hpa); err != nil {
		t.Fatal(err)
	}

	own := newPool(func(env *v1alpha1.CustomerSupportEnv) {
		env.Name, env.Spec.Autoscaling = "own", &v1alpha1.Autoscaling{MaxReplicas: 5}
	})
	if err := c.client.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	if err := c.client.SubResource("scale").Update(t.Context(), own, client.WithSubResourceBody(scale)); err == nil {
		t.Error("a pool that the operator scales is scaled by another autoscaler")
	}
}

// publish serves a metric as an adapter does, through the API server.
func (c cluster) publish(t *testing.T, metric, selector string, value int64) {
	t.Helper()
	const version = metricsAPI + "/v1beta1"
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("GET /apis/"+version, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: version})
	})
	mux.HandleFunc("GET /apis/"+version+"/namespaces/default/"+metric, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("labelSelector"); got != selector {
			t.Errorf("the metric is read with the selector %q, want %q", got, selector)
		}
		answer(w, map[string]any{"kind": "ExternalMetricValueList", "apiVersion": version, "items": []any{map[string]any{
			"metricName": metric, "value": fmt.Sprint(value), "timestamp": metav1.NewTime(time.Now())}}})
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(address.Port(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// The API server finds this process by the name of the Service.
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "adapter", Namespace: "monitoring"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1beta1." + metricsAPI},
		"spec": map[string]any{"group": metricsAPI, "version": "v1beta1", "insecureSkipTLSVerify": true,
			"groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service": map[string]any{"namespace": "monitoring", "name": "adapter", "port": port}},
	}}
	for _, object := range []client.Object{service, registration} {
		if err := c.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// The queries of the examples are equal but for the selectors of their series.
func TestQueries(t *testing.T) {
	triggers, _, _ := unstructured.NestedSlice(read(t, "keda/scaledobject.yaml")[0].Object, "spec", "triggers")
	query, _, _ := unstructured.NestedString(triggers[0].(map[string]any), "metadata", "query")
	adapter, _, _ := unstructured.NestedString(read(t, "hpa/prometheus-adapter.yaml")[0].Object, "data", "config.yaml")
	want := strings.NewReplacer("max(", "max by (namespace, pool) (",
		`namespace="default",pool="support"`, "<<.LabelMatchers>>").Replace(query)
	if got := strings.Join(strings.Fields(adapter), " "); !strings.Contains(got, want) {
		t.Errorf("the adapter's query isn't %s:\n%s", want, got)
	}
}
