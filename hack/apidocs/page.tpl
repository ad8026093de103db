{{- define "gvList" -}}
# API reference
{{ range . }}{{ $gv := . }}
Both kinds are in the API group and version `{{ .GroupVersionString }}`.
`make generate` writes this page from the Go types, as it writes the CRDs.
`kubectl explain` shows the same for the CRDs of a cluster.
[pools.md](pools.md) and [runs.md](runs.md) explain how to use the fields.

Objects of other APIs, such as LabelSelector, link to the reference of Kubernetes.
A field without a default is unset unless you set it.

## Kinds
{{ range .SortedKinds }}{{ template "type" ($gv.TypeForKind .) }}{{ end }}
## Types
{{ range .SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end }}
{{- end -}}

{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}

{{ .Doc | replace "\n" " " }}
{{ with .SortedReferences }}
Used by {{ range $i, $type := . }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $type }}{{ end }}.
{{ end }}
{{- if not .EnumValues }}{{ range .Validation }}
- {{ . }}
{{- end }}{{ if .Validation }}
{{ end }}{{ end }}
{{- if .Members }}
| field | type | meaning | default | rules |
|---|---|---|---|---|
{{ if .GVK -}}
| `apiVersion` | string | `{{ .GVK.Group }}/{{ .GVK.Version }}` | | |
| `kind` | string | `{{ .GVK.Kind }}` | | |
{{ end -}}
{{ range .Members -}}
| `{{ .Name }}` | {{ template "typeOf" . }} | {{ template "meaning" . }} | {{ with .Default | replace "{  }" "" }}`{{ . }}`{{ end }} | {{ template "rules" . }} |
{{ end -}}
{{ end }}
{{- with .EnumValues }}
| value | meaning |
|---|---|
{{ range . -}}
| `{{ .Name }}` | {{ regexReplaceAll "^[A-Za-z0-9]+ " (.Doc | replace "\n" " " | trim) "" }} |
{{ end -}}
{{ end }}
{{- with index .Markers "kubebuilder:validation:XValidation" }}
Rules:
{{ range . }}
- {{ .Message }}
{{- end }}
{{ end }}
{{- end -}}
{{- end -}}

{{- define "meaning" -}}
{{- if eq .Name "metadata" -}}
the object's name, namespace, labels and annotations
{{- else -}}
{{ markdownRenderFieldDoc (.Doc | replace "\n" " ") }}
{{- end -}}
{{- end -}}

{{- define "rules" -}}
{{- $rules := list -}}
{{- range .Validation -}}
{{- if hasPrefix "Required" . }}{{ $rules = append $rules "required" -}}
{{- else if not (or (hasPrefix "Optional" .) (hasPrefix "Enum" .) (hasPrefix "Type" .)) }}{{/* The generator writes large bounds with an exponent. */}}
{{- if regexMatch "^M[a-z]+: [0-9.]+e[+]" . }}{{ $words := splitList ": " . }}{{ $rules = append $rules (printf "%s: %.0f" (index $words 0) (index $words 1 | float64)) }}
{{- else }}{{ $rules = append $rules (. | replace "|" "\\|") }}{{ end }}{{ end -}}
{{- end -}}
{{- $typed := index .Type.Markers "kubebuilder:validation:XValidation" -}}
{{- range index .Markers "kubebuilder:validation:XValidation" -}}
{{- if not (has . $typed) }}{{ $rules = append $rules (.Message | replace "|" "\\|") }}{{ end -}}
{{- end -}}
{{- join "<br>" $rules -}}
{{- end -}}

{{/* Go aliases have no section. */}}
{{- define "typeOf" -}}
{{ markdownRenderType .Type | replace "[Decimal](#decimal)" "decimal string" | replace "[Count](#count)" "integer" }}
{{- end -}}
