package serve

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// reloadInterval bounds the age of a value. Kubernetes takes a minute to update a pod's Secret.
const reloadInterval = 10 * time.Second

// reloaded is a value that is read again when its files change. If that fails, the value stays.
type reloaded[T any] struct {
	paths []string
	read  func() (T, error)
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	value   T
	stamps  []stamp
	checked time.Time
}

// stamp identifies a version of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// newReloaded reads the value for the first time.
func newReloaded[T any](read func() (T, error), now func() time.Time, log *slog.Logger,
	paths ...string) (*reloaded[T], error) {
	r := &reloaded[T]{paths: paths, read: read, now: now, log: log}
	var err error
	if r.stamps, err = stamps(paths); err != nil {
		return nil, err
	}
	if r.value, err = read(); err != nil {
		return nil, err
	}
	r.checked = now()
	return r, nil
}

func stamps(paths []string) ([]stamp, error) {
	found := make([]stamp, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("checking %s for changes: %w", path, err)
		}
		found[i] = stamp{info.ModTime(), info.Size()}
	}
	return found, nil
}

// get returns the value as of at most reloadInterval ago.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); now.Sub(r.checked) >= reloadInterval {
		r.checked = now
		r.refresh()
	}
	return r.value
}

func (r *reloaded[T]) refresh() {
	found, err := stamps(r.paths)
	if err == nil && slices.Equal(found, r.stamps) {
		return
	}
	var value T
	if err == nil {
		value, err = r.read()
	}
	if err != nil {
		r.log.Error("Reading a changed file failed: keeping its previous content", "paths", r.paths, "error", err)
		return
	}
	r.value, r.stamps = value, found
	r.log.Info("Read a changed file", "paths", r.paths)
}
