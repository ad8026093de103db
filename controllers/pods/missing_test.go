package pods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/controllers/pods"
)

func TestHowToCreate(t *testing.T) {
	t.Parallel()
	secret := func(name, key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
	}
	settings := &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "mode"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lab"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "A", ValueFrom: secret("aws", "id")}}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "K", ValueFrom: secret("openai", "key")},
			{Name: "B", ValueFrom: secret("aws", "token")}, {Name: "C", ValueFrom: secret("aws", "id")},
			{Name: "M", ValueFrom: settings}, {Name: "X", Value: "y"}}}},
	}}
	for message, want := range map[string]string{
		`secret "openai" not found`: "Create it: `kubectl create secret generic openai -n lab " +
			"--from-literal=key=VALUE`",
		`secret "aws" not found`: "Create it: `kubectl create secret generic aws -n lab " +
			"--from-literal=id=VALUE --from-literal=token=VALUE`",
		`configmap "settings" not found`: "Create it: `kubectl create configmap settings -n lab " +
			"--from-literal=mode=VALUE`",
		`secret "whole" not found`: "Create it: `kubectl create secret generic whole -n lab --from-literal=KEY=VALUE`",
		`couldn't find key key in Secret lab/openai`: "Add the key: `kubectl patch secret openai -n lab " +
			`-p '{"stringData":{"key":"VALUE"}}'` + "`",
		`couldn't find key mode in ConfigMap lab/settings`: "Add the key: `kubectl patch configmap settings -n lab " +
			`-p '{"data":{"mode":"VALUE"}}'` + "`",
		"image will run as root": "",
	} {
		if got := pods.HowToCreate(pod, message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}
