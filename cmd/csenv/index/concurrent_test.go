package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// readAsPages reads an index as the pages do.
func readAsPages(ctx context.Context, x *Index, id string) error {
	runs, err := x.Runs(ctx)
	for _, r := range runs {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		return fmt.Errorf("reading the runs: %w", err)
	}
	page, err := x.Episodes(ctx, Query{Run: id, Text: "common", Sort: ByScore})
	if err != nil {
		return fmt.Errorf("listing episodes: %w", err)
	}
	if _, _, err := x.Search(ctx, Search{Text: "common"}); err != nil {
		return fmt.Errorf("searching: %w", err)
	}
	for _, e := range page.Episodes[:min(len(page.Episodes), 2)] {
		_, of := x.Neighbours(ctx, Query{Run: id, Sort: ByScore}, e.Index)
		_, read := x.Episode(ctx, id, e.Index)
		if err := errors.Join(of, read); err != nil {
			return fmt.Errorf("reading episode %d: %w", e.Index, err)
		}
	}
	return nil
}

// A reader that writes waits for the transaction of an update, which may wait for the reader.
func TestReadersDoNotWrite(t *testing.T) {
	folder := t.TempDir()
	writeStore(t, folder, runID)
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	update(t, x, folder)
	if _, err := x.db.ExecContext(t.Context(), "UPDATE runs SET summed = -1"); err != nil {
		t.Fatal(err)
	}
	var all []*sql.Conn
	for range maxConnections {
		c, err := x.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ExecContext(t.Context(), "PRAGMA query_only = 1"); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.db.ExecContext(t.Context(), "UPDATE runs SET summed = -1"); err == nil {
		t.Fatal("the index can be written")
	}
	if err := readAsPages(t.Context(), x, runID); err != nil {
		t.Error(err)
	}
}

// Two processes show a store while a run is stored there.
func TestConcurrentUse(t *testing.T) {
	const rounds, readers = 12, 3
	folder := t.TempDir()
	p := writeStore(t, folder, runID)
	var all errgroup.Group
	var indexes []*Index
	for n := range 2 {
		x := openIndex(t, filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", n)))
		update(t, x, folder)
		indexes = append(indexes, x)
		all.Go(func() error {
			for range rounds {
				if err := x.Update(t.Context(), folder, func(Progress) {}); err != nil {
					return fmt.Errorf("updating the index: %w", err)
				}
			}
			return nil
		})
		for range readers {
			all.Go(func() error {
				for range rounds {
					if err := readAsPages(t.Context(), x, runID); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	// As a store does, a segment appears as a whole.
	staged, number := t.TempDir(), 1000
	for planned := range p.Shard(0) {
		e := episode(planned, 0.25, "common")
		e.Receipt = receipt(t, p, planned, 250_000)
		number++
		writeSegment(t, staged, runID, 0, number, e)
		name := filepath.Join(runID, "shard-00000", fmt.Sprintf("%06d.jsonl", number))
		if err := os.Rename(filepath.Join(staged, name), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	run, err := fromStore(t.Context(), folder)
	want := figuresOf(t, run, err)
	for _, x := range indexes {
		update(t, x, folder)
		run, err := loaded(t.Context(), x, runID)
		if diff := gocmp.Diff(want, figuresOf(t, run, err)); diff != "" {
			t.Error(diff)
		}
	}
}

// An episode that a search finds while its run is being read can be opened, although lists of the
// run may lack it.
func TestFoundEpisodesDuringAnUpdate(t *testing.T) {
	folder := t.TempDir()
	p := writeStore(t, folder, runID)
	number := 1000
	for planned := range p.Shard(0) {
		number++
		writeSegment(t, folder, runID, 0, number, episode(planned, 0.25, "common"))
	}
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	lacking := false
	if err := x.Update(t.Context(), folder, func(Progress) {
		page, listed := x.Episodes(t.Context(), Query{Run: runID, Limit: MaxLimit})
		found, _, err := x.Search(t.Context(), Search{Text: "common", Limit: MaxLimit})
		if err := errors.Join(listed, err); err != nil {
			t.Error(err)
			return
		}
		for _, e := range found {
			lacking = lacking || !slices.ContainsFunc(page.Episodes, func(l Episode) bool { return l.Index == e.Index })
			if _, err := x.Episode(t.Context(), e.Run, e.Index); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("a list lacked an episode: %v", lacking)
}
