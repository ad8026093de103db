package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
)

// credentialKey is the key of the run's credential in its Secret.
const credentialKey = "credential"

// credentialName names the Secret of a run's credential. It contains a digest of the UID, because
// each run has another credential, and the Secret of an earlier run of the name may still be there.
func credentialName(run *v1alpha1.EvaluationRun) string {
	sum := sha256.Sum256([]byte(run.UID))
	return run.Name + "-credential-" + hex.EncodeToString(sum[:4])
}

// createCredential creates the Secret of the credential with which the run's runners, and nobody
// else, open ledgers on the pool's servers. One that exists is left as it is: the operator made it
// for an earlier Job of the run, or somebody else did, whose runners are refused.
func (r *Reconciler) createCredential(ctx context.Context, s snapshot) error {
	secrets, err := r.keys.Secrets(ctx, access.PoolOf(s.run), s.publicKey())
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: objectMeta(s.run, credentialName(s.run)),
		Immutable:  new(true),
		Data:       map[string][]byte{credentialKey: []byte(secrets.RunCredential(string(s.run.UID)))},
	}
	if err := r.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s with the run's credential: %w", types.NamespacedName{
			Namespace: secret.Namespace, Name: secret.Name}, err)
	}
	return nil
}

// publicKey is that of the pool, "" while there is no pool.
func (s snapshot) publicKey() string {
	if s.env == nil {
		return ""
	}
	return s.env.Status.LedgerPublicKey
}
