package chart

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	operator = "Deployment/csenv-manager"
	pages    = "Deployment/csenv-ui"
	monitor  = "ServiceMonitor/csenv-manager"
)

// Each value changes what it is for.
func TestSwitches(t *testing.T) {
	for name, tt := range map[string]struct {
		values string
		want   map[string][]string // parts of objects' YAML
		absent []string
	}{
		"the image": {
			"{ui: {enabled: true}, image: {repository: registry.example/csenv, tag: v1, pullPolicy: Always}}",
			map[string][]string{
				operator: {"image: registry.example/csenv:v1\n        imagePullPolicy: Always\n",
					"- name: CSENV_IMAGE\n          value: registry.example/csenv:v1\n"},
				pages: {"image: registry.example/csenv:v1\n        imagePullPolicy: Always\n"},
			}, nil,
		},
		"pods": {
			"{ui: {enabled: true}, imagePullSecrets: [{name: registry}], nodeSelector: {disk: ssd}, priorityClassName: high, " +
				"tolerations: [{operator: Exists}], affinity: {nodeAffinity: {}}}",
			map[string][]string{operator: pod(), pages: pod()}, nil,
		},
		"resources and arguments": {
			"{args: [--max-pool-updates=9], resources: {limits: {memory: 1Gi}}, ui: {enabled: true, resources: {limits: " +
				"{memory: 2Gi}}}}",
			map[string][]string{operator: {"- --max-pool-updates=9\n", "memory: 1Gi\n"}, pages: {"memory: 2Gi\n"}}, nil,
		},
		"containers and labels": {
			"{ui: {enabled: true}, env: [{name: HTTPS_PROXY, value: 'http://p'}], envFrom: [{secretRef: {name: extra}}], " +
				"volumes: [{name: ca, configMap: {name: ca}}], volumeMounts: [{name: ca, mountPath: /ca}], " +
				"podLabels: {team: rl}, podAnnotations: {mesh: 'no'}, serviceAccountAnnotations: {role: x}, " +
				"probes: {timeoutSeconds: 9}}",
			map[string][]string{
				operator: append(container(), "kubectl.kubernetes.io/default-container: manager\n        mesh: \"no\"\n"),
				pages: append(container(), "optional: true\n        - secretRef:\n            name: extra\n",
					"mountPath: /cache\n          name: cache\n        - mountPath: /ca\n", "name: cache\n      - configMap:\n"),
				"ServiceAccount/csenv-manager": {"role: x\n"},
			}, nil,
		},
		"images of their own": {
			"{workloadImage: 'r.example/servers:1', ui: {enabled: true, image: 'r.example/ui:2'}, image: {tag: v1}}",
			map[string][]string{operator: {"image: csenv:v1\n", "value: r.example/servers:1\n"},
				pages: {"image: r.example/ui:2\n"}}, nil,
		},
		"spread by values": {
			"{replicas: 2, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
			map[string][]string{operator: {"topologySpreadConstraints:\n      - maxSkew: 1\n        topologyKey: zone\n"}}, nil,
		},
		"monitors of servers": {
			"{metrics: {podMonitors: [{namespace: lab, pool: big}], serviceMonitor: {enabled: true, interval: 1m, labels: " +
				"{release: p}, endpoint: {scrapeTimeout: 9s}}}}",
			map[string][]string{"PodMonitor/lab/csenv-big": {"name: big-metrics-token\n", "interval: 1m\n",
				"csenv.dev/environment: big\n", "release: p\n"}, monitor: {"scrapeTimeout: 9s\n"}}, nil,
		},
		"the way to the pages": {
			"{ui: {enabled: true, service: {type: LoadBalancer, annotations: {lb: internal}}, cache: {claim: index}, " +
				"ingress: {host: csenv.example, className: nginx, annotations: {auth: 'yes'}, tlsSecretName: cert}}}",
			map[string][]string{
				"Service/csenv-ui": {"type: LoadBalancer\n", "lb: internal\n"},
				"Ingress/csenv-ui": {"auth: \"yes\"\n", "ingressClassName: nginx\n", "host: csenv.example\n", "secretName: cert\n"},
				pages:              {"claimName: index\n", "type: Recreate\n"},
			}, nil,
		},
		"no way to the pages": {"{ui: {enabled: true}}", map[string][]string{pages: {"sizeLimit: 10Gi\n"}},
			[]string{"Ingress/csenv-ui"}},
		"policies by values": {
			"{ui: {enabled: true}, networkPolicy: {enabled: true, metricsFrom: {metrics: null, team: sre}, pagesFrom: " +
				"{ui: null, team: web}, egress: {enabled: true, more: [{ports: [{port: 4318}]}]}}}",
			map[string][]string{
				"NetworkPolicy/csenv-manager-metrics": {"team: sre\n", "- Egress\n", "port: 9000\n", "port: 4318\n"},
				"NetworkPolicy/csenv-ui":              {"team: web\n", "- Egress\n"},
			}, nil,
		},
		"watched namespaces": {
			"{watchNamespaces: [a, b]}",
			map[string][]string{operator: {"- --watch-namespaces=a,b\n"}},
			[]string{"ClusterRole/csenv-manager", "ClusterRoleBinding/csenv-manager"},
		},
		"in a parent chart": {
			"{enabled: true, global: {}}", map[string][]string{operator: {"replicas: 1\n"}}, nil,
		},
		"one replica": {"{}", map[string][]string{operator: {"replicas: 1\n"}}, []string{"PodDisruptionBudget/csenv-manager"}},
		"no kinds":    {"{crds: {install: false}}", nil, []string{"CustomResourceDefinition/evaluationruns.csenv.dev"}},
		"no roles": {"{userRoles: false}", nil, []string{"ClusterRole/csenv-viewer", "ClusterRole/csenv-editor",
			"ClusterRole/csenv-team"}},
		"no policy":    {"{secretPolicy: false}", nil, []string{"ValidatingAdmissionPolicy/csenv-manager-secrets"}},
		"three copies": {"{replicas: 3}", map[string][]string{operator: {"replicas: 3\n", "topologySpreadConstraints:\n"}}, nil},
		"metrics over HTTP": {
			"{metrics: {secure: false, serviceMonitor: {enabled: true, interval: 1m, labels: {release: prometheus}}}}",
			map[string][]string{
				operator:                        {"- --metrics-insecure\n"},
				"Service/csenv-manager-metrics": {"- name: http\n"},
				monitor:                         {"port: http\n", "scheme: http\n", "interval: 1m\n", "release: prometheus\n"},
			},
			[]string{"ClusterRole/csenv-metrics-auth", "ClusterRole/csenv-metrics-reader",
				"ClusterRoleBinding/csenv-metrics-auth"},
		},
		"labels of the dashboard and the alerts": {
			"{metrics: {rules: {enabled: true, labels: {release: prometheus}}, dashboard: {enabled: true, labels: " +
				"{grafana_dashboard: null, grafana: 'yes'}}}}",
			map[string][]string{
				"PrometheusRule/csenv":      {"release: prometheus\n", "Pool {{ $labels.namespace }}/{{ $labels.pool }}"},
				"ConfigMap/csenv-dashboard": {"grafana: \"yes\"\n", `{{namespace}}/{{pool}}`},
			}, nil,
		},
		"the pages": {
			"{watchNamespaces: [a], ui: {enabled: true, public: true, results: ['s3://b/p?region=x&y=: #'], " +
				"serviceAccountAnnotations: {role: reader}}}",
			map[string][]string{
				pages:                     {"- --namespace=a\n        - --public\n        - '--results=s3://b/p?region=x&y=: #'\n"},
				"ServiceAccount/csenv-ui": {"role: reader\n"},
			}, []string{"ClusterRole/csenv-ui"},
		},
		"policies without the pages": {"{networkPolicy: {enabled: true}}",
			map[string][]string{"NetworkPolicy/csenv-manager-metrics": {"metrics: enabled\n"}},
			[]string{"NetworkPolicy/csenv-ui"}},
	} {
		t.Run(name, func(t *testing.T) { checkParts(t, render(t, tt.values), tt.want, tt.absent) })
	}
}

// container returns the fields of a container and its pod's labels.
func container() []string {
	return []string{"- name: HTTPS_PROXY\n          value: http://p\n", "secretRef:\n            name: extra\n",
		"mountPath: /ca\n", "configMap:\n          name: ca\n", "team: rl\n", "mesh: \"no\"\n", "timeoutSeconds: 9\n"}
}

// pod returns the fields of a pod.
func pod() []string {
	return []string{"imagePullSecrets:\n      - name: registry\n", "nodeSelector:\n        disk: ssd\n",
		"priorityClassName: high\n", "tolerations:\n      - operator: Exists\n", "affinity:\n        nodeAffinity: {}\n"}
}

func checkParts(t *testing.T, got objects, want map[string][]string, absent []string) {
	t.Helper()
	for id, parts := range want {
		text, err := yaml.Marshal(got[id])
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s hasn't %q:\n%s", id, part, text)
			}
		}
	}
	for _, id := range absent {
		if got[id] != nil {
			t.Errorf("it has %s", id)
		}
	}
}

// Helm stores a release, with the chart and all rendered objects, in one Secret.
func TestReleaseFitsIntoItsSecret(t *testing.T) {
	rendered, err := install(t, all)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if err := json.NewEncoder(writer).Encode(rendered); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20
	if size := base64.StdEncoding.EncodedLen(packed.Len()); size > limit/2 {
		t.Errorf("the release has %d bytes, more than half of what a Secret may have", size)
	}
}
