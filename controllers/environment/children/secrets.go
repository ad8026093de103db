package children

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
)

// BuildKeySecret returns the Secret of a key pair with which the servers sign.
func BuildKeySecret(env *v1alpha1.CustomerSupportEnv, public string, private []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: keys.SecretName(env.Name, public), Namespace: env.Namespace,
			Labels: LabelObject(env.Name)},
		Immutable: new(true),
		Type:      corev1.SecretTypeOpaque,
		Data:      map[string][]byte{keys.File: private},
	}
}

// metricsTokenKey is the key of the token in a pool's Secret for Prometheus.
const metricsTokenKey = "token"

// BuildMetricsToken returns the Secret from which Prometheus reads the token for /metrics.
func BuildMetricsToken(env *v1alpha1.CustomerSupportEnv, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name + "-metrics-token", Namespace: env.Namespace,
			Labels: LabelObject(env.Name)},
		Immutable: new(true),
		Data:      map[string][]byte{metricsTokenKey: []byte(token)},
	}
}
