package promtool

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

const config = "../../config/prometheus"

func read(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(config, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// promtool runs promtool: the one on PATH, otherwise the version that go.mod pins.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	command := append([]string{"env", "GOWORK=off", "go", "tool", "promtool"}, args...)
	if path, err := exec.LookPath("promtool"); err == nil {
		command = append([]string{path}, args...)
	}
	if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, path string, content any) {
	t.Helper()
	data, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMonitors(t *testing.T) {
	var pods monitoringv1.PodMonitor
	read(t, "servers/pod_monitor.yaml", &pods)
	if len(pods.Spec.PodMetricsEndpoints) != 1 {
		t.Errorf("pods are scraped at %+v", pods.Spec.PodMetricsEndpoints)
	}
	var service monitoringv1.ServiceMonitor
	read(t, "service_monitor.yaml", &service)
	if len(service.Spec.Endpoints) != 1 {
		t.Errorf("the operator is scraped at %+v", service.Spec.Endpoints)
	}
}

func TestAlerts(t *testing.T) {
	var rules monitoringv1.PrometheusRule
	read(t, "rules.yaml", &rules)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "rules.yaml"), rules.Spec)
	series, err := os.ReadFile("alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "alerts_test.yaml"), series, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(folder, "rules.yaml"))
	promtool(t, "test", "rules", filepath.Join(folder, "alerts_test.yaml"))

	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" && !strings.Contains(string(series), "alertname: "+rule.Alert+"\n") {
				t.Errorf("no test has alert %s", rule.Alert)
			}
		}
	}
}

// dashboard is the part of Grafana's model that contains queries.
type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// Grafana replaces variables by text before it sends a query.
var variables = strings.NewReplacer("$__rate_interval", "2m", "$namespace", ".*", "$pool", ".*")

func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(config, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	// promtool checks recording rules but no single queries.
	group := monitoringv1.RuleGroup{Name: "dashboard"}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			if target.Expr == "" {
				t.Errorf("panel %q has a target without a query", panel.Title)
			}
			rule := map[string]any{"record": fmt.Sprintf("query:%d", len(group.Rules)),
				"expr": variables.Replace(target.Expr)}
			data, err := json.Marshal(rule)
			if err != nil {
				t.Fatal(err)
			}
			var r monitoringv1.Rule
			if err := json.Unmarshal(data, &r); err != nil {
				t.Fatal(err)
			}
			group.Rules = append(group.Rules, r)
		}
	}
	if len(group.Rules) == 0 {
		t.Fatal("the dashboard has no queries")
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "queries.yaml"),
		monitoringv1.PrometheusRuleSpec{Groups: []monitoringv1.RuleGroup{group}})
	promtool(t, "check", "rules", filepath.Join(folder, "queries.yaml"))
}

// TestScaling evaluates the query with which a pool is scaled, also while a restarted operator's
// series overlap.
func TestScaling(t *testing.T) {
	data, err := os.ReadFile("../../examples/works-with/keda/scaledobject.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var scaled struct {
		Spec struct {
			Triggers []struct {
				Metadata struct {
					Query string `json:"query"`
				} `json:"metadata"`
			} `json:"triggers"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &scaled); err != nil {
		t.Fatal(err)
	}
	series := func(name, pool, operator, values string) map[string]string {
		return map[string]string{"values": values,
			"series": fmt.Sprintf(`csenv_pool_sessions_%s{namespace="default", pool=%q, pod=%q}`, name, pool, operator)}
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "test.yaml"), map[string]any{"tests": []any{map[string]any{
		"interval": "1m",
		"input_series": []any{
			series("capacity", "support", "old", "4000x9"), series("free", "support", "old", "1000x9"),
			series("capacity", "support", "new", "4000x9"), series("free", "support", "new", "900x9"),
			series("capacity", "other", "new", "4000x9"), series("free", "other", "new", "0x9"),
		},
		"promql_expr_test": []any{map[string]any{"expr": scaled.Spec.Triggers[0].Metadata.Query, "eval_time": "5m",
			"exp_samples": []any{map[string]any{"labels": "{}", "value": 3100}}}},
	}}})
	promtool(t, "test", "rules", filepath.Join(folder, "test.yaml"))
}
