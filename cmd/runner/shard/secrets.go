package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/results/buckets"
)

// secrets are what a runner proves to the pool and to the agent's endpoint.
type secrets struct {
	credential string // of the run
	poolToken  string // the pool's tokens, one a line
	agentKey   string
}

// readSecrets reads the secrets from the files of --secrets or, without it, from variables of the
// same names. A missing one is "".
func readSecrets(o options) (secrets, error) {
	read := func(name string) (string, error) {
		if o.secrets == "" {
			return os.Getenv(name), nil
		}
		return readOptional(filepath.Join(o.secrets, name))
	}
	credential, err := read(envvars.RunCredential)
	poolToken, tokenErr := read(envvars.PoolToken)
	agentKey, keyErr := read(envvars.AgentKey)
	if err := errors.Join(err, tokenErr, keyErr); err != nil {
		return secrets{}, fmt.Errorf("reading --secrets: %w", err)
	}
	return secrets{credential: credential, poolToken: poolToken, agentKey: agentKey}, nil
}

// useStoreCredentials sets the variables of stores to the files of --store-credentials. Files of
// other names are ignored: the author of a run chooses them.
func useStoreCredentials(o options, log *slog.Logger) error {
	if o.storeCredentials == "" {
		return nil
	}
	for _, name := range buckets.Variables {
		text, err := readOptional(filepath.Join(o.storeCredentials, name))
		if err == nil && text != "" {
			err = os.Setenv(name, text)
		}
		if err != nil {
			return fmt.Errorf("reading --store-credentials: %w", err)
		}
	}
	files, err := filepath.Glob(filepath.Join(o.storeCredentials, "[^.]*"))
	if err != nil {
		return fmt.Errorf("reading --store-credentials: %w", err)
	}
	for _, file := range files {
		if name := filepath.Base(file); !slices.Contains(buckets.Variables, name) {
			log.Warn("A key of the store's Secret is ignored", "key", name, "read", buckets.Variables)
		}
	}
	return nil
}

func readOptional(file string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the folder is named by a flag
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}
