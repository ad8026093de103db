package serve

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// reloadInterval bounds the age of tokens. Kubernetes takes a minute to update a pod's Secret.
const reloadInterval = 10 * time.Second

// tokenFile has the tokens of clients. It is read again when it changes; if that fails, the tokens
// stay.
type tokenFile struct {
	path string
	now  func() time.Time
	log  *slog.Logger

	mu       sync.Mutex
	tokens   []string
	modified time.Time
	size     int64
	checked  time.Time
}

// newTokenFile reads the tokens for the first time.
func newTokenFile(path string, now func() time.Time, log *slog.Logger) (*tokenFile, error) {
	f := &tokenFile{path: path, now: now, log: log, checked: now()}
	_, err := f.read()
	return f, err
}

// get returns the tokens as of at most reloadInterval ago.
func (f *tokenFile) get() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.checked) >= reloadInterval {
		f.checked = now
		switch changed, err := f.read(); {
		case err != nil:
			f.log.Error("Reading the changed --token-file failed: keeping its previous tokens", "error", err)
		case changed:
			f.log.Info("Read the changed --token-file", "path", f.path)
		}
	}
	return f.tokens
}

// read reads the tokens if the file has changed. A file without tokens is an error.
func (f *tokenFile) read() (changed bool, err error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return false, fmt.Errorf("reading --token-file: %w", err)
	}
	if info.ModTime().Equal(f.modified) && info.Size() == f.size {
		return false, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return false, fmt.Errorf("reading --token-file: %w", err)
	}
	tokens := strings.Fields(string(text))
	if len(tokens) == 0 {
		return false, fmt.Errorf("--token-file %s has no token: write one per line", f.path)
	}
	f.tokens, f.modified, f.size = tokens, info.ModTime(), info.Size()
	return true, nil
}
