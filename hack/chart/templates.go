package main

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
		"Deployment/csenv-manager": append(podEdits("        image: csenv:dev"), []edit{
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
			{line: "          value: csenv:dev", with: `          value: {{ include "csenv.image" . }}`},
			{line: "        resources:", block: true, with: `        resources:
          {{- toYaml .Values.resources | nindent 10 }}`},
			{line: "      topologySpreadConstraints:", block: true,
				with: "      {{- " + manyReplicas + " }}\n" + original + "\n      {{- end }}"},
		}...),
	}
}

func uiEdits() map[string][]edit {
	return map[string][]edit{
		"ClusterRole/csenv-ui":        namespacedRole(),
		"ClusterRoleBinding/csenv-ui": namespacedBinding(),
		"ServiceAccount/csenv-ui": {{line: "metadata:", with: original + `
  {{- with .Values.ui.serviceAccountAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}`}},
		"Deployment/csenv-ui": append(podEdits("        image: csenv:dev"), []edit{
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
	labels := func(of string) string {
		return original + `
    {{- with .Values.metrics.` + of + `.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}`
	}
	return map[string][]edit{
		"ServiceMonitor/csenv-manager": {
			{line: partOf, with: labels("serviceMonitor")},
			{line: "    interval: 30s", with: "    interval: {{ .Values.metrics.serviceMonitor.interval }}"},
			{line: "    port: https", with: `    port: {{ ternary "https" "http" .Values.metrics.secure }}`},
			{line: "    scheme: https", with: `    scheme: {{ ternary "https" "http" .Values.metrics.secure }}`},
			{line: "    tlsConfig:", block: true, with: `    {{- if .Values.metrics.secure }}
    bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
` + original + `
    {{- end }}`},
			{line: "  - bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", with: "  -"},
		},
		"PrometheusRule/csenv": {{line: partOf, with: labels("rules")}},
		"ConfigMap/csenv-dashboard": {{line: `    grafana_dashboard: "1"`,
			with: "    {{- toYaml .Values.metrics.dashboard.labels | nindent 4 }}"}},
	}
}

// podEdits are common to the pods of the operator and of the pages.
func podEdits(image string) []edit {
	return []edit{
		{line: image, with: `        image: {{ include "csenv.image" . }}
        {{- with .Values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}`},
		{line: "      containers:", with: `      {{- include "csenv.pod" . | nindent 6 }}
` + original},
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
