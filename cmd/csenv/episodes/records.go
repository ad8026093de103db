package episodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/record"
)

// recordsOf opens records by path and returns a function that closes them.
func recordsOf(ctx context.Context, stdin io.Reader, path string) (iter.Seq2[record.Episode, error], func(), error) {
	if path == "-" {
		return record.Read(stdin), func() {}, nil
	}
	if info, err := os.Stat(path); strings.Contains(path, "://") || err == nil && info.IsDir() {
		return storedRecords(ctx, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading records: %w", err)
	}
	return record.Read(file), func() { _ = file.Close() }, nil
}

// storedRecords reads the records of all runs of a store.
func storedRecords(ctx context.Context, location string) (iter.Seq2[record.Episode, error], func(), error) {
	store, err := source.OpenStored(ctx, location)
	if err != nil {
		return nil, nil, err
	}
	runs, err := store.Runs(ctx)
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("%s contains no run: give a folder with a manifest.json at most two levels below", location)
	}
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return func(yield func(record.Episode, error) bool) {
		for _, run := range runs {
			for e, err := range store.Episodes(ctx, run) {
				if !yield(e, err) {
					return
				}
			}
		}
	}, func() { _ = store.Close() }, nil
}
