{{- /* The image of the operator, the pages, servers and runners. */}}
{{- define "csenv.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Fields of the operator's and the pages' pods that are set by the value of the same name. */}}
{{- define "csenv.pod" -}}
{{- range $field := list "affinity" "imagePullSecrets" "nodeSelector" "priorityClassName" "tolerations" }}
{{- with index $.Values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end }}
