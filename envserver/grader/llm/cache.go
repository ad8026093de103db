package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/grader"
)

// CacheMode is the use of the cache of answers.
type CacheMode string

// The modes of the cache.
const (
	CacheReadWrite CacheMode = "readwrite" // looks answers up and keeps new ones
	CacheOff       CacheMode = "off"       // always calls the model, even for concurrent identical requests
	CacheRead      CacheMode = "read"      // keeps nothing new
	CacheWrite     CacheMode = "write"     // looks nothing up and replaces the answers in the cache
	CacheFrozen    CacheMode = "frozen"    // never calls the model, and fails if an answer is missing
)

// CacheModes lists the modes.
func CacheModes() []CacheMode {
	return []CacheMode{CacheReadWrite, CacheOff, CacheRead, CacheWrite, CacheFrozen}
}

func (m CacheMode) reads() bool { return m == CacheReadWrite || m == CacheRead || m == CacheFrozen }

func (m CacheMode) writes() bool { return m == CacheReadWrite || m == CacheWrite }

// entry is a cached vote. Its file is named by the key.
type entry struct {
	Key      string            `json:"key"`
	Model    string            `json:"model"`
	Rubric   string            `json:"rubric"`
	Scenario string            `json:"scenario"`
	Vote     int               `json:"vote"`
	At       time.Time         `json:"at"`
	Answers  []grader.Evidence `json:"answers"`
	// Usage is the original cost of the answers.
	Usage grader.Usage `json:"usage"`
}

// cache keeps the most recently used votes in memory and, if configured, all votes in a folder.
// Servers may share the folder, because files are written atomically and never change.
type cache struct {
	mode   CacheMode
	memory *lru.Cache[string, entry]
	folder string
}

func newCache(c *Config) (*cache, error) {
	memory, err := lru.New[string, entry](c.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("making the judge's cache: %w", err)
	}
	if c.CacheDir != "" && c.CacheMode.writes() {
		if err := os.MkdirAll(c.CacheDir, 0o750); err != nil {
			return nil, fmt.Errorf("making the judge's cache folder: %w", err)
		}
	}
	return &cache{mode: c.CacheMode, memory: memory, folder: c.CacheDir}, nil
}

// get looks up a vote. It ignores unreadable entries and entries of another question.
func (c *cache) get(key string, q *question) (entry, bool) {
	if !c.mode.reads() {
		return entry{}, false
	}
	if e, ok := c.memory.Get(key); ok {
		return e, true
	}
	if c.folder == "" {
		return entry{}, false
	}
	var e entry
	data, err := os.ReadFile(c.file(key))
	if err != nil || json.Unmarshal(data, &e) != nil || e.Key != key || !isDecided(e.Answers) {
		return entry{}, false
	}
	if _, err := q.assessment.grade("", e.Answers); err != nil {
		return entry{}, false
	}
	c.memory.Add(key, e)
	return e, true
}

// put stores a vote that decides every claim.
func (c *cache) put(e entry) error {
	if !c.mode.writes() || !isDecided(e.Answers) {
		return nil
	}
	c.memory.Add(e.Key, e)
	if c.folder == "" {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding a verdict: %w", err)
	}
	if err := writeFile(c.file(e.Key), data); err != nil {
		return fmt.Errorf("keeping a verdict: %w", err)
	}
	return nil
}

// file returns the path of a vote. Keys are hexadecimal.
func (c *cache) file(key string) string { return filepath.Join(c.folder, key[:2], key+".json") }

// writeFile writes a file atomically.
func writeFile(path string, data []byte) error {
	folder := filepath.Dir(path)
	if err := os.Mkdir(folder, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// isDecided reports whether every answer is met or unmet.
func isDecided(answers []grader.Evidence) bool {
	return !slices.ContainsFunc(answers,
		func(a grader.Evidence) bool { return a.Verdict != grader.Met && a.Verdict != grader.Unmet })
}
