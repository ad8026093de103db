package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

const (
	// packInterval is the time between two checks for changes. packJitter varies it, so that the
	// servers of a pool don't check at the same time.
	packInterval = 10 * time.Second
	packJitter   = 0.1
	// checkTimeout bounds a check. A pack of the size of the built-in one takes half a second.
	checkTimeout = 2 * time.Minute
	// maxWatched bounds the watched files of a folder. A pack has fewer.
	maxWatched = 10_000
	// maxFault bounds the reported faults of packs, in bytes.
	maxFault = 2048
	// checkMemory is the soft memory limit of a check.
	checkMemory = "128MiB"
)

// packWatch watches the packs of a running server. The server plays the packs that it has loaded,
// and reports the packs that a server started now would play, or their fault.
//
// A changed pack is checked once, by loading it in a separate process with the lowest priority and
// one processor, so that a pack that crashes or hangs the check doesn't affect sessions. The check
// limits its memory, and the kernel kills it first when the container's memory runs out.
type packWatch struct {
	folders []string
	check   func(context.Context) (score.Packs, error)
	log     *slog.Logger
	// seen is the fingerprint of the packs that were loaded or checked last.
	seen string
	said atomic.Pointer[score.Packs]
}

// newPackWatch returns nil for a server without folders. Call it before these are loaded, so that a
// change during loading is detected.
func newPackWatch(o *options, command []string, log *slog.Logger) *packWatch {
	folders := append([]string{}, o.packs...)
	if o.scenarios != "" {
		folders = append(folders, o.scenarios)
	}
	if len(folders) == 0 || len(command) == 0 {
		return nil
	}
	w := &packWatch{folders: folders, log: log, seen: hashFolders(folders)}
	w.check = func(ctx context.Context) (score.Packs, error) { return checkApart(ctx, command) }
	return w
}

// reporter returns a function that reports the packs, at first the loaded digest, nil without
// packs.
func (w *packWatch) reporter(digest string) func() score.Packs {
	if w == nil {
		return nil
	}
	w.said.Store(&score.Packs{Digest: digest})
	return func() score.Packs { return *w.said.Load() }
}

// run checks for changes until the context ends.
func (w *packWatch) run(ctx context.Context) {
	if w == nil {
		return
	}
	for {
		wait := time.Duration(float64(packInterval) * (1 + packJitter*(2*rand.Float64()-1))) //nolint:gosec // jitter
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			w.look(ctx)
		}
	}
}

// look checks the packs if they have changed. Changes during the check are left to the next call.
func (w *packWatch) look(ctx context.Context) {
	found := hashFolders(w.folders)
	if found == w.seen {
		return
	}
	packs, err := w.check(ctx)
	switch {
	case ctx.Err() != nil || hashFolders(w.folders) != found:
		return
	case err != nil:
		w.log.Error("Checking the changed packs failed: trying again", "error", err)
		return
	}
	w.seen = found
	w.said.Store(&packs)
	w.log.Info("The packs have changed: still playing the loaded ones", "digest", packs.Digest, "error", packs.Error)
}

// swapped is the link by which Kubernetes swaps the content of a volume.
const swapped = "..data"

// hashFolders identifies the content of folders by the names, sizes and times of their files, and
// by Kubernetes' link.
func hashFolders(folders []string) string {
	sum := sha256.New()
	for _, folder := range folders {
		link, _ := os.Readlink(filepath.Join(folder, swapped)) // "" for a folder that isn't Kubernetes'
		files, n := os.DirFS(folder), 0
		err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if n++; err != nil || n > maxWatched {
				return cmp.Or(err, fs.SkipAll)
			}
			if path != "." && strings.HasPrefix(entry.Name(), ".") { // not part of a pack
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if info, err := fs.Stat(files, path); err == nil && !info.IsDir() {
				_, _ = fmt.Fprintf(sum, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
			}
			return nil
		})
		_, _ = fmt.Fprintf(sum, "%q %q %v\n", folder, link, err)
	}
	return string(sum.Sum(nil))
}

// formatFault returns the whole lines of the error that fit into maxFault.
func formatFault(err error) string {
	text := strings.TrimSpace(strings.TrimPrefix(err.Error(), loadingFailed))
	if len(text) <= maxFault {
		return text
	}
	end := strings.LastIndexByte(text[:maxFault], '\n')
	if end < 0 {
		return strings.ToValidUTF8(text[:maxFault], "")
	}
	return fmt.Sprintf("%s\n… and %d more", text[:end], 1+strings.Count(text[end+1:], "\n"))
}

// checkApart runs the command again with --check. Faults of the packs are in the result, not the
// error.
func checkApart(ctx context.Context, command []string) (score.Packs, error) {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return score.Packs{}, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(bounded, program, append(append([]string{}, command[1:]...), "--check")...)
	cmd.Args[0] = command[0] // in the image, one file is several programs, by the name of their call
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOMEMLIMIT="+checkMemory)
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{&out, maxFault * 8}, &limited{&faults, maxFault}
	if err := runAtLowPriority(cmd); err != nil {
		if bounded.Err() != nil && ctx.Err() == nil {
			return score.Packs{Error: fmt.Sprintf(
				"checking the packs took longer than %s: make them smaller or simpler", checkTimeout)}, nil
		}
		return score.Packs{}, fmt.Errorf("running this program to check the packs: %w: %s", err,
			bytes.TrimSpace(faults.Bytes()))
	}
	var packs score.Packs
	if err := json.Unmarshal(out.Bytes(), &packs); err != nil {
		return score.Packs{}, fmt.Errorf("decoding the output of the check: %w", err)
	}
	return packs, nil
}

// limited drops bytes beyond its limit.
type limited struct {
	io.Writer
	left int
}

func (l *limited) Write(data []byte) (int, error) {
	n := min(len(data), l.left)
	l.left -= n
	if _, err := l.Writer.Write(data[:n]); err != nil {
		return 0, err
	}
	return len(data), nil
}
