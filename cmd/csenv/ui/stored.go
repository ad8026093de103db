package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/csenv/csenv/cmd/csenv/index"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/controllers/evaluation"
)

const (
	// storeInterval is how often stores are searched for new episodes.
	storeInterval = 3 * time.Second
	// figuresShare bounds the time that goes into figures while a store is being read: they are
	// computed again after this many times what they took.
	figuresShare = 10
)

// stored are the runs of all result stores, by their index.
type stored struct {
	index     *index.Index
	locations []string
	changed   func()
	// stale has a value if the figures are older than the index.
	stale chan struct{}
	// loading is held while figures are computed.
	loading sync.Mutex

	mu   sync.Mutex
	runs []*source.LoadedRun
	// byID has the runs by runID. Their ids in the index are the names of their folders, which may
	// differ.
	byID     map[string]index.StoredRun
	progress map[string]reading // of the locations that are being read
	failures map[string]error
	// ready is closed by open when there is something to show: a run, or an empty store.
	ready chan struct{}
	open  func()
	// unread is the number of locations that were never read in full. first waits for them.
	unread int
	first  sync.WaitGroup
}

// reading is how far a location is read.
type reading struct {
	index.Progress
	began time.Time
}

// openStored opens the index of stores and follows them until the context ends. The index is in a
// file, by default below the user's cache folder.
func openStored(ctx context.Context, file string, locations []string, changed func()) (*stored, error) {
	for _, location := range locations {
		store, err := source.OpenStored(ctx, location)
		if err != nil {
			return nil, err
		}
		_ = store.Close()
	}
	open := func() (*index.Index, error) { return index.OpenDefault(ctx, locations...) }
	if file != "" {
		open = func() (*index.Index, error) { return index.Open(ctx, file) }
	}
	x, err := open()
	if err != nil {
		return nil, err
	}
	s := &stored{index: x, locations: locations, changed: changed, stale: make(chan struct{}, 1),
		progress: map[string]reading{}, failures: map[string]error{}, ready: make(chan struct{}),
		unread: len(locations)}
	s.open = sync.OnceFunc(func() { close(s.ready) })
	s.first.Add(len(locations))
	go s.refresh(ctx)
	for _, location := range locations {
		go s.follow(ctx, location)
	}
	return s, nil
}

// refresh computes the figures again while stores are being read, beside the reading.
func (s *stored) refresh(ctx context.Context) {
	s.load(ctx) // what an earlier process has read
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stale:
		}
		took := s.load(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(storeInterval, figuresShare*took)):
		}
	}
}

// follow reads new episodes of a store until the context ends.
func (s *stored) follow(ctx context.Context, location string) {
	settled := sync.OnceFunc(func() {
		s.set(func() { s.unread-- })
		s.first.Done()
	})
	defer settled()
	warmed := false
	for ctx.Err() == nil {
		read := 0
		began := time.Now()
		err := s.index.Update(ctx, location, func(p index.Progress) {
			read = p.Segments
			s.set(func() { s.progress[location] = reading{p, began} })
			select {
			case s.stale <- struct{}{}:
			default:
			}
			s.changed()
		})
		s.mu.Lock()
		same := errors.Is(err, s.failures[location]) || fmt.Sprint(err) == fmt.Sprint(s.failures[location])
		s.mu.Unlock()
		if read > 0 || !same || !warmed { // before it is called settled, the figures are known
			s.set(func() { delete(s.progress, location); s.failures[location] = err })
			s.load(ctx)
		}
		settled()
		s.open()
		s.changed()
		if read > 0 || !warmed {
			s.warm(ctx)
			warmed = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(storeInterval):
		}
	}
}

// warm loads the newest run, which people look at first: the first list of a large run takes
// seconds.
func (s *stored) warm(ctx context.Context) {
	s.mu.Lock()
	var newest index.StoredRun
	for _, run := range s.byID {
		if newest.LoadedRun == nil || newest.CreationTimestamp.Before(&run.CreationTimestamp) {
			newest = run
		}
	}
	s.mu.Unlock()
	if newest.LoadedRun != nil {
		// A failure is shown when the list is opened.
		_, _ = s.index.Episodes(ctx, index.Query{Run: newest.ID, Limit: 1})
	}
}

// settle waits until all stores were read once.
func (s *stored) settle(ctx context.Context) {
	done := make(chan struct{})
	go func() { s.first.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (s *stored) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
}

// load computes the figures of all runs, and returns how long it took.
func (s *stored) load(ctx context.Context) time.Duration {
	s.loading.Lock()
	defer s.loading.Unlock()
	began := time.Now()
	all, err := s.index.Runs(ctx)
	var runs []*source.LoadedRun
	byID := map[string]index.StoredRun{}
	for _, run := range all {
		if run.Err != nil {
			err = errors.Join(err, run.Err)
			continue
		}
		runs, byID[runID(run.EvaluationRun)] = append(runs, run.LoadedRun), run
	}
	if ctx.Err() != nil {
		return 0
	}
	s.set(func() {
		s.runs, s.byID, s.failures[""] = runs, byID, err
	})
	if len(runs) > 0 {
		s.open()
	}
	s.changed()
	return time.Since(began)
}

// list returns the runs, and why some can't be read.
func (s *stored) list(ctx context.Context) ([]*source.LoadedRun, error) {
	s.wait(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs, errors.Join(slices.Collect(maps.Values(s.failures))...)
}

// run returns a run by its id, nil if it isn't stored.
func (s *stored) run(ctx context.Context, id string) *source.LoadedRun {
	s.wait(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id].LoadedRun
}

// indexID returns the id of a run in the index, "" if it isn't stored.
func (s *stored) indexID(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id].ID
}

// wait waits a moment for the first read.
func (s *stored) wait(ctx context.Context) {
	select {
	case <-s.ready:
	case <-ctx.Done():
	case <-time.After(firstRead):
	}
}

// reading says how far the stores are read, "" if they are.
func (s *stored) reading() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all index.Progress
	var began time.Time
	for _, p := range s.progress {
		all.Episodes, all.Bytes, all.AllBytes = all.Episodes+p.Episodes, all.Bytes+p.Bytes, all.AllBytes+p.AllBytes
		if began.IsZero() || p.began.Before(began) {
			began = p.began
		}
	}
	if all.Bytes == all.AllBytes {
		if s.unread > 0 {
			return "The store is being read."
		}
		return ""
	}
	text := fmt.Sprintf("The store is being read: %s of about %s new episodes", formatThousands(int(all.Episodes)),
		formatThousands(int(all.About())))
	if left, known := evaluation.TimeLeft(time.Since(began), all.Bytes, all.AllBytes); known {
		text += fmt.Sprintf(", about %s left", max(left.Round(time.Second), time.Second))
	}
	return text + "."
}
