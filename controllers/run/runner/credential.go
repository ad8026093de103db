package runner

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
)

// CredentialKey is the key of the run's credential in its Secret.
const CredentialKey = "credential"

// NameCredential names the Secret of a run's credential. It contains a digest of the UID, because
// each run has another credential, and the Secret of an earlier run of the name may still be there.
func NameCredential(run *v1alpha1.EvaluationRun) string {
	sum := sha256.Sum256([]byte(run.UID))
	return run.Name + "-credential-" + hex.EncodeToString(sum[:4])
}

// MakeCredential contains the credential with which the run's runners, and nobody else, open
// ledgers on the pool's servers.
func MakeCredential(run *v1alpha1.EvaluationRun, credential string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: MakeMeta(run, NameCredential(run)),
		Immutable:  new(true),
		Data:       map[string][]byte{CredentialKey: []byte(credential)},
	}
}
