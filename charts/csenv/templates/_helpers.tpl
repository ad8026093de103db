{{- /* The image of the operator and, unless they have their own, of the pages, servers and runners. */}}
{{- define "csenv.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Fields of the operator's and the pages' pods that are set by the value of the same name. */}}
{{- define "csenv.pod" -}}
{{- range $field := list "affinity" "imagePullSecrets" "nodeSelector" "priorityClassName" "tolerations" "topologySpreadConstraints" }}
{{- with index $.Values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Where the operator and the pages may send requests: to DNS, the API server, the servers'
operations port, stores, and what the values add. */}}
{{- define "csenv.egress" -}}
- ports:
  - {port: 53, protocol: UDP}
  - {port: 53, protocol: TCP}
  - {port: 443, protocol: TCP}
  - {port: 6443, protocol: TCP}
  - {port: 9000, protocol: TCP}
{{- with .Values.networkPolicy.egress.more }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The labels of what deletes pools and runs before the operator. */}}
{{- define "csenv.cleanup.labels" -}}
app.kubernetes.io/name: csenv
app.kubernetes.io/component: cleanup
app.kubernetes.io/part-of: csenv
{{- end }}

{{- /* Labels and annotations of its objects, which are hooks. */}}
{{- define "csenv.cleanup.metadata" -}}
labels:
  {{- include "csenv.cleanup.labels" . | nindent 2 }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-weight: {{ . | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
