package main

import (
	"cmp"
	"fmt"
	"strings"
)

// perNamespace repeats Roles for each watched namespace. Without one, it renders them once, for the
// cluster.
const perNamespace = `range $.Values.watchNamespaces | default (list "")`

// manyReplicas is true if the operator has more than one replica.
const manyReplicas = "if gt (int .Values.replicas) 1"

// templateFiles says which objects each template has, and what values change.
func templateFiles() []templateFile {
	crdObjects := []string{"CustomResourceDefinition/customersupportenvs.csenv.dev",
		"CustomResourceDefinition/evaluationruns.csenv.dev"}
	return []templateFile{
		{
			name: "crds.yaml", source: "config/ha",
			parts: []part{{[]string{"if .Values.crds.install"}, crdObjects}},
			edits: map[string][]edit{crdObjects[0]: keep(), crdObjects[1]: keep()},
		},
		{
			name: "operator.yaml", source: "config/ha",
			parts: operatorParts(),
			edits: operatorEdits(),
		},
		{
			name: "ui.yaml", source: "config/ui",
			parts: []part{
				{[]string{"if .Values.ui.enabled"}, []string{"ServiceAccount/csenv-ui", "Service/csenv-ui",
					"Deployment/csenv-ui"}},
				{[]string{"if .Values.ui.enabled", perNamespace}, []string{"ClusterRole/csenv-ui",
					"ClusterRoleBinding/csenv-ui"}},
			},
			edits: uiEdits(),
		},
		{
			name: "network-policy.yaml", source: "config/network-policy",
			parts: []part{
				{[]string{"if .Values.networkPolicy.enabled"}, []string{"NetworkPolicy/csenv-manager-metrics"}},
				{[]string{"if .Values.networkPolicy.enabled", "if .Values.ui.enabled"},
					[]string{"NetworkPolicy/csenv-ui"}},
			},
			edits: map[string][]edit{
				"NetworkPolicy/csenv-manager-metrics": policyEdits("metrics: enabled", "metricsFrom"),
				"NetworkPolicy/csenv-ui":              policyEdits("ui: enabled", "pagesFrom"),
			},
		},
		{
			name: "prometheus.yaml", source: "config/prometheus",
			parts: []part{
				{[]string{"if .Values.metrics.serviceMonitor.enabled"}, []string{"ServiceMonitor/csenv-manager"}},
				{[]string{"if .Values.metrics.rules.enabled"}, []string{"PrometheusRule/csenv"}},
				{[]string{"if .Values.metrics.dashboard.enabled"}, []string{"ConfigMap/csenv-dashboard"}},
			},
			edits: monitoringEdits(),
		},
		{
			name: "servers.yaml", source: "config/prometheus/servers",
			parts: []part{{[]string{"range .Values.metrics.podMonitors"}, []string{"PodMonitor/csenv-support"}}},
			edits: map[string][]edit{"PodMonitor/csenv-support": {
				{line: "  name: csenv-support", with: "  name: csenv-{{ .pool }}"},
				{line: "  namespace: default", with: "  namespace: {{ .namespace }}"},
				{line: "    app.kubernetes.io/name: csenv", with: original + moreLabels("serviceMonitor")},
				{line: "    interval: 30s", with: "    interval: {{ $.Values.metrics.serviceMonitor.interval }}"},
				{line: "        name: support-metrics-token", with: "        name: {{ .pool }}-metrics-token"},
				{line: "      csenv.dev/environment: support", with: "      csenv.dev/environment: {{ .pool }}"},
			}},
		},
	}
}

// policyEdits let values say who is admitted, and which requests are.
func policyEdits(label, from string) []edit {
	return []edit{
		{line: "          " + label, with: "          {{- toYaml .Values.networkPolicy." + from + " | nindent 10 }}"},
		{line: "  - Ingress", with: original + `
  {{- if .Values.networkPolicy.egress.enabled }}
  - Egress
  egress:
  {{- include "csenv.egress" . | nindent 2 }}
  {{- end }}`},
	}
}

// keep has Helm keep the kinds, and with them all pools and runs, when it uninstalls the release.
func keep() []edit {
	return []edit{{line: "  annotations:", with: original + `
    {{- if .Values.crds.keep }}
    helm.sh/resource-policy: keep
    {{- end }}`}}
}

func operatorParts() []part {
	return []part{
		{nil, []string{"ServiceAccount/csenv-manager", "Role/csenv-leader-election",
			"RoleBinding/csenv-leader-election", "Lease/csenv-manager", "Service/csenv-manager-metrics",
			"Deployment/csenv-manager"}},
		{[]string{perNamespace}, []string{"ClusterRole/csenv-manager", "ClusterRoleBinding/csenv-manager"}},
		{[]string{"if .Values.metrics.secure"}, []string{"ClusterRole/csenv-metrics-auth",
			"ClusterRoleBinding/csenv-metrics-auth", "ClusterRole/csenv-metrics-reader"}},
		{[]string{"if .Values.userRoles"}, []string{"ClusterRole/csenv-viewer", "ClusterRole/csenv-editor",
			"ClusterRole/csenv-team"}},
		{[]string{"if .Values.secretPolicy"}, []string{"ValidatingAdmissionPolicy/csenv-manager-secrets",
			"ValidatingAdmissionPolicyBinding/csenv-manager-secrets"}},
		{[]string{manyReplicas}, []string{"PodDisruptionBudget/csenv-manager"}},
	}
}

func operatorEdits() map[string][]edit {
	return map[string][]edit{
		"ClusterRole/csenv-manager":        namespacedRole(),
		"ClusterRoleBinding/csenv-manager": namespacedBinding(),
		"Service/csenv-manager-metrics": {{line: "  - name: https",
			with: `  - name: {{ ternary "https" "http" .Values.metrics.secure }}`}},
		"ServiceAccount/csenv-manager": {annotate("serviceAccountAnnotations")},
		"Deployment/csenv-manager": append(podEdits(`include "csenv.image" .`), []edit{
			{line: "          value: csenv:dev",
				with: `          value: {{ .Values.workloadImage | default (include "csenv.image" .) }}`},
			{line: "        env:", block: true, with: original + appended("env", 8) + optional("envFrom", 8)},
			{line: "        terminationMessagePolicy: FallbackToLogsOnError",
				with: original + optional("volumeMounts", 8)},
			{line: "      serviceAccountName: csenv-manager", with: original + optional("volumes", 6)},
			{line: "      annotations:", block: true, with: original + appended("podAnnotations", 8)},
			{line: "  replicas: 2", with: "  replicas: {{ .Values.replicas }}"},
			{line: "        - --health-probe-bind-address=:8081", with: original + `
        {{- if not .Values.metrics.secure }}
        - --metrics-insecure
        {{- end }}
        {{- with .Values.watchNamespaces }}
        - --watch-namespaces={{ join "," . }}
        {{- end }}
        {{- with .Values.args }}
        {{- toYaml . | nindent 8 }}
        {{- end }}`},
			{line: "        resources:", block: true, with: `        resources:
          {{- toYaml .Values.resources | nindent 10 }}`},
			{line: "      topologySpreadConstraints:", block: true, with: "      {{- " + manyReplicas +
				" | and (not .Values.topologySpreadConstraints) }}\n" + original + "\n      {{- end }}"},
		}...),
	}
}

func uiEdits() map[string][]edit {
	return map[string][]edit{
		"ClusterRole/csenv-ui":        namespacedRole(),
		"ClusterRoleBinding/csenv-ui": namespacedBinding(),
		"ServiceAccount/csenv-ui":     {annotate("ui.serviceAccountAnnotations")},
		"Service/csenv-ui": {annotate("ui.service.annotations"), {line: "spec:", with: original + `
  {{- with .Values.ui.service.type }}
  type: {{ . }}
  {{- end }}`}},
		"Deployment/csenv-ui": append(podEdits(`.Values.ui.image | default (include "csenv.image" .)`), []edit{
			{line: "        env:", block: true, with: original + appended("env", 8)},
			{line: "        envFrom:", block: true, with: original + appended("envFrom", 8)},
			{line: "        volumeMounts:", block: true, with: original + appended("volumeMounts", 8)},
			{line: "      - emptyDir:", block: true, with: `      - name: cache
        {{- if .Values.ui.cache.claim }}
        persistentVolumeClaim:
          claimName: {{ .Values.ui.cache.claim }}
        {{- else }}
        emptyDir:
          sizeLimit: {{ .Values.ui.cache.size }}
        {{- end }}` + appended("volumes", 6)},
			{line: "      labels:", block: true, with: original + optional("podAnnotations", 6, "annotations")},
			{line: "  replicas: 1", with: original + `
  {{- if .Values.ui.cache.claim }}
  strategy:
    type: Recreate
  {{- end }}`},
			{line: "        - --all-namespaces", with: `        {{- with .Values.watchNamespaces }}
        {{- if gt (len .) 1 }}
        {{- fail "ui.enabled: the pages show one namespace or all, but watchNamespaces has several" }}
        {{- end }}
        - --namespace={{ first . }}
        {{- else }}
` + original + `
        {{- end }}
        {{- if .Values.ui.public }}
        - --public
        {{- end }}
        {{- range .Values.ui.results }}
        - {{ printf "--results=%s" . | quote }}
        {{- end }}`},
			{line: "        resources:", block: true, with: `        resources:
          {{- toYaml .Values.ui.resources | nindent 10 }}`},
		}...),
	}
}

func monitoringEdits() map[string][]edit {
	const partOf = "    app.kubernetes.io/part-of: csenv"
	return map[string][]edit{
		"ServiceMonitor/csenv-manager": {
			{line: partOf, with: original + moreLabels("serviceMonitor")},
			{line: "    interval: 30s", with: "    interval: {{ .Values.metrics.serviceMonitor.interval }}" +
				appended("metrics.serviceMonitor.endpoint", 4)},
			{line: "    port: https", with: `    port: {{ ternary "https" "http" .Values.metrics.secure }}`},
			{line: "    scheme: https", with: `    scheme: {{ ternary "https" "http" .Values.metrics.secure }}`},
			{line: "    tlsConfig:", block: true, with: `    {{- if .Values.metrics.secure }}
    bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
` + original + `
    {{- end }}`},
			{line: "  - bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", with: "  -"},
		},
		"PrometheusRule/csenv": {{line: partOf, with: original + moreLabels("rules")}},
		"ConfigMap/csenv-dashboard": {{line: `    grafana_dashboard: "1"`,
			with: "    {{- toYaml .Values.metrics.dashboard.labels | nindent 4 }}"}},
	}
}

// moreLabels adds the labels of a group of values.
func moreLabels(group string) string { return appended("metrics."+group+".labels", 4) }

// appended adds the items of a value to a list or mapping with an indent.
func appended(value string, indent int) string {
	space := strings.Repeat(" ", indent)
	return fmt.Sprintf("\n%s{{- with $.Values.%s }}\n%s{{- toYaml . | nindent %d }}\n%s{{- end }}", space, value, space,
		indent, space)
}

// optional adds a field that a value sets, of the value's name or another.
func optional(value string, indent int, name ...string) string {
	space := strings.Repeat(" ", indent)
	field := cmp.Or(strings.Join(name, ""), value)
	return fmt.Sprintf("\n%s{{- with $.Values.%s }}\n%s%s:\n%s  {{- toYaml . | nindent %d }}\n%s{{- end }}", space,
		value, space, field, space, indent+2, space)
}

// annotate adds annotations to an object without any.
func annotate(value string) edit {
	return edit{line: "metadata:", with: original + optional(value, 2, "annotations")}
}

// podEdits are common to the pods of the operator and of the pages.
func podEdits(image string) []edit {
	probe := func(name string) edit {
		return edit{line: "        " + name + ":", block: true, edits: []edit{{line: "          timeoutSeconds: 5",
			with: "          timeoutSeconds: {{ .Values.probes.timeoutSeconds }}"}}}
	}
	return []edit{
		{line: "        image: csenv:dev", with: `        image: {{ ` + image + ` }}
        {{- with .Values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}`},
		{line: "      containers:", with: `      {{- include "csenv.pod" . | nindent 6 }}
` + original},
		{line: "      labels:", block: true, with: original + appended("podLabels", 8)},
		probe("livenessProbe"), probe("readinessProbe"),
	}
}

func namespacedRole() []edit {
	return []edit{
		{line: "kind: ClusterRole", with: `kind: {{ ternary "Role" "ClusterRole" (ne . "") }}`},
		inNamespace(),
	}
}

func namespacedBinding() []edit {
	return []edit{
		{line: "kind: ClusterRoleBinding", with: `kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne . "") }}`},
		{line: "  kind: ClusterRole", with: `  kind: {{ ternary "Role" "ClusterRole" (ne . "") }}`},
		inNamespace(),
	}
}

func inNamespace() edit {
	return edit{line: "metadata:", with: original + `
  {{- with . }}
  namespace: {{ . }}
  {{- end }}`}
}
