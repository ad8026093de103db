package local

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// keyFile is where the key of csenv eval on this machine is.
func keyFile() (string, error) {
	if file := os.Getenv(envvars.EvalKeyFile); file != "" {
		return file, nil
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding the key of csenv eval: %w", err)
	}
	return filepath.Join(folder, "csenv", "eval-key.pem"), nil
}

// MachineKey reads the key with which csenv eval signs on this machine, and makes it first if there
// is none. Whoever reads its file can sign too.
func MachineKey() (ed25519.PrivateKey, error) {
	file, err := keyFile()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(file); err != nil {
			return nil, fmt.Errorf("making the key of csenv eval: %w", err)
		}
	}
	return poolkey.Load(file)
}

// makeKey makes a key. If another program makes one at the same time, one of the two remains.
func makeKey(file string) error {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(folder, "eval-key-*") // for this user alone
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(poolkey.Encode(key))
	if err = errors.Join(err, draft.Close()); err != nil {
		return err
	}
	if err := os.Link(draft.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ReadPublicKey returns the public half of this machine's key, "" if csenv eval has made none.
func ReadPublicKey() (string, error) {
	file, err := keyFile()
	if err != nil {
		return "", nil //nolint:nilerr // without a place for it there is none
	}
	key, err := poolkey.Load(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return score.FormatPublicKey(key.Public().(ed25519.PublicKey)), nil
}
