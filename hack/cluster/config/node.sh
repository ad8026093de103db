#!/bin/sh
# Runs containerd in a separate mount namespace, where the fixed paths of containerd, the CNI
# plugins and the kubelet are folders of the cluster's state. The kubelet joins this namespace. All
# mounts end with its last process.
set -e
{{- range .Covered}}
mount --bind '{{.Behind}}' {{.Path}}
{{- end}}
# Shared, so that mounts propagate between pods. The machine doesn't see them.
mount --make-rshared /
exec containerd --config '{{.At "config" "containerd.toml"}}'
