// Package keys reads the ledger keys of pools, from which the secrets follow that the operator
// shares with a pool's servers: the token of their operations port and the credentials of runs.
package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// File is the Secret's key of the private key, PKCS#8 in PEM.
const File = "key.pem"

// SecretName returns the name of the Secret of a pool's public key, which has 40 bits of the key's
// hash.
func SecretName(pool, public string) string {
	sum := sha256.Sum256([]byte(public))
	return pool + "-ledger-key-" + hex.EncodeToString(sum[:5])
}

// maxKnown bounds the remembered pools. Above it they are read again.
const maxKnown = 4096

// Source finds the secrets of the pool with a public key.
type Source interface {
	Secrets(ctx context.Context, pool types.NamespacedName, public string) (*poolkey.Secrets, error)
}

// Reader reads pools' keys, each once, because a key's Secret never changes. Check finds those that
// were deleted. It is safe for concurrent use.
type Reader struct {
	secret func(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error)

	mu    sync.Mutex
	known map[owned]known
}

// owned is a pool and its public key. A pool whose status has another pool's key isn't its owner.
type owned struct {
	pool   types.NamespacedName
	public string
}

type known struct {
	private ed25519.PrivateKey
	secrets *poolkey.Secrets
}

// NewReader returns a reader. The function reads a Secret, which is in no cache.
func NewReader(secret func(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error)) *Reader {
	return &Reader{secret: secret, known: map[owned]known{}}
}

// Secrets returns the secrets of the pool with this public key. A pool that is gone is still known
// by its key.
func (r *Reader) Secrets(ctx context.Context, pool types.NamespacedName, public string) (*poolkey.Secrets, error) {
	if public == "" {
		return nil, fmt.Errorf("pool %s has no ledger key yet", pool)
	}
	r.mu.Lock()
	found, is := r.known[owned{pool, public}]
	r.mu.Unlock()
	if is {
		return found.secrets, nil
	}
	name := types.NamespacedName{Namespace: pool.Namespace, Name: SecretName(pool.Name, public)}
	key, err := r.read(ctx, name, public)
	if err != nil {
		return nil, err
	}
	secrets, err := poolkey.DeriveSecrets(key)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[owned{pool, public}] = known{key, secrets}
	return secrets, nil
}

// Check reads the Secret of a pool's key again. It returns the key if the Secret is gone and the
// key is known, so that the Secret can be created again, else nil. A key whose Secret has other
// data is forgotten.
func (r *Reader) Check(ctx context.Context, pool types.NamespacedName, public string) (ed25519.PrivateKey, error) {
	r.mu.Lock()
	found, is := r.known[owned{pool, public}]
	r.mu.Unlock()
	if !is {
		return nil, nil // Secrets reads it
	}
	name := types.NamespacedName{Namespace: pool.Namespace, Name: SecretName(pool.Name, public)}
	secret, err := r.secret(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return found.private, nil
	case err != nil:
		return nil, fmt.Errorf("reading the ledger key's Secret: %w", err)
	}
	if key, err := poolkey.Parse(secret.Data[File]); err != nil || !key.Equal(found.private) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.known, owned{pool, public})
	}
	return nil, nil
}

// errOtherKey means that the Secret isn't the operator's.
var errOtherKey = errors.New("its key is not the one of status.ledgerPublicKey")

func (r *Reader) read(ctx context.Context, name types.NamespacedName, public string) (ed25519.PrivateKey, error) {
	secret, err := r.secret(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger key's Secret: %w", err)
	}
	key, err := poolkey.Parse(secret.Data[File])
	if err == nil && score.FormatPublicKey(key.Public().(ed25519.PublicKey)) != public {
		err = errOtherKey
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ledger key in Secret %s: %w", name, err)
	}
	return key, nil
}
