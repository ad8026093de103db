package runner

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
)

// MakeCredential contains the credential with which the run's runners, and nobody else, open
// ledgers on the pool's servers.
func MakeCredential(run *v1alpha1.EvaluationRun, credential string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: MakeMeta(run, NameCredential(run)),
		Immutable:  new(true),
		Data:       map[string][]byte{CredentialKey: []byte(credential)},
	}
}
