#!/bin/sh
# Runs containerd in a mount namespace of its own, where the fixed paths that it,
# the CNI plugins and the kubelet insist on are folders of the cluster's state.
# The kubelet joins this namespace. When its last process ends, every mount goes with it.
set -e
{{- range .Covered}}
mount --bind '{{.Behind}}' {{.Path}}
{{- end}}
# Shared from here on, so that mount propagation works between pods; the machine sees none of it.
mount --make-rshared /
exec containerd --config '{{.At "config" "containerd.toml"}}'
