package pods

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The kubelet's messages about objects that a container needs.
var (
	objectMissing = regexp.MustCompile(`\b(secret|configmap) "([^"]+)" not found`)
	keyMissing    = regexp.MustCompile(`couldn't find key (\S+) in (Secret|ConfigMap) [^/\s]+/([^\s,:]+)`)
)

// HowToCreate returns the command that creates the Secret or ConfigMap, or the key in it, which a
// pod's container waits for: a sentence without its full stop, "" if the message names none.
func HowToCreate(pod *corev1.Pod, message string) string {
	if m := objectMissing.FindStringSubmatch(message); m != nil {
		return "Create it: " + CreateCommand(m[1], m[2], pod.Namespace, keysOf(pod, m[1], m[2])...)
	}
	if m := keyMissing.FindStringSubmatch(message); m != nil {
		kind, field := strings.ToLower(m[2]), "data"
		if kind == "secret" {
			field = "stringData"
		}
		return fmt.Sprintf("Add the key: `kubectl patch %s %s -n %s -p '{\"%s\":{\"%s\":\"VALUE\"}}'`", kind, m[3],
			pod.Namespace, field, m[1])
	}
	return ""
}

// CreateCommand returns the command that creates a Secret or a ConfigMap with some keys.
func CreateCommand(kind, name, namespace string, keys ...string) string {
	if len(keys) == 0 {
		keys = []string{"KEY"}
	}
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i] = "--from-literal=" + key + "=VALUE"
	}
	return CreateFrom(kind, name, namespace, values...)
}

// CreateFrom returns the command that creates a Secret or a ConfigMap, with the flags of its
// content.
func CreateFrom(kind, name, namespace string, flags ...string) string {
	if kind == "secret" {
		kind += " generic"
	}
	return fmt.Sprintf("`kubectl create %s %s -n %s %s`", kind, name, namespace, strings.Join(flags, " "))
}

// keysOf returns the keys of a Secret or a ConfigMap that the pod's containers read.
func keysOf(pod *corev1.Pod, kind, name string) []string {
	var keys []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, env := range c.Env {
			switch from := env.ValueFrom; {
			case from == nil:
			case kind == "secret" && from.SecretKeyRef != nil && from.SecretKeyRef.Name == name:
				keys = append(keys, from.SecretKeyRef.Key)
			case kind == "configmap" && from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name == name:
				keys = append(keys, from.ConfigMapKeyRef.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
