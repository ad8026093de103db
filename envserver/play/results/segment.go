package results

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/csenv/csenv/envserver/play/record"
)

// Segment is one written object of a run's episodes. It doesn't change as long as its size and time
// stay the same.
type Segment struct {
	// Shard counts from 0, Number from 1 within its shard.
	Shard, Number int
	// Size is in bytes.
	Size int64
	// Modified is when it was written, according to its store.
	Modified time.Time
}

// Segments lists a run's segments by shard and number.
func (s *Store) Segments(ctx context.Context, run string) ([]Segment, error) {
	shards, err := s.listShards(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("listing the shards of %s: %w", run, err)
	}
	var all []Segment
	for _, shard := range shards {
		segments, err := s.listSegments(ctx, run, shard.number)
		if err != nil {
			return nil, err
		}
		all = append(all, segments...)
	}
	return all, nil
}

// Segment reads the records of one segment in the order of its lines. A segment that was cut off
// ends at its last complete line. An error that wraps record.ErrNotRecord is about one line, any
// other is the last item.
func (s *Store) Segment(ctx context.Context, run string, segment Segment) iter.Seq2[record.Episode, error] {
	key := segmentKey(run, segment.Shard, segment.Number)
	return func(yield func(record.Episode, error) bool) {
		text, _, err := s.readObject(ctx, key, maxSegment)
		if err != nil {
			yield(record.Episode{}, err)
			return
		}
		for e, err := range record.Read(bytes.NewReader(text)) {
			if errors.Is(err, record.ErrTruncated) {
				return
			}
			if err != nil {
				err = fmt.Errorf("reading %s: %w", key, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

var (
	shardPattern   = regexp.MustCompile(`^shard-([0-9]{5,})$`)
	segmentPattern = regexp.MustCompile(`^([0-9]{6,})\.jsonl$`)
)

func shardFolder(run string, shard int) string {
	return path.Join(run, fmt.Sprintf("shard-%05d", shard))
}

func segmentKey(run string, shard, n int) string {
	return path.Join(shardFolder(run, shard), fmt.Sprintf("%06d.jsonl", n))
}

// listShards are the folders of a run's shards, in order.
func (s *Store) listShards(ctx context.Context, run string) ([]numbered, error) {
	return s.listNumbered(ctx, run, shardPattern)
}

// listSegments are the segments of one shard, in order.
func (s *Store) listSegments(ctx context.Context, run string, shard int) ([]Segment, error) {
	objects, err := s.listNumbered(ctx, shardFolder(run, shard), segmentPattern)
	if err != nil {
		return nil, fmt.Errorf("listing the segments of shard %d: %w", shard, err)
	}
	segments := make([]Segment, len(objects))
	for i, o := range objects {
		segments[i] = Segment{Shard: shard, Number: o.number, Size: o.size, Modified: o.modified}
	}
	return segments, nil
}

// numbered is an object or a folder whose name has a number.
type numbered struct {
	number   int
	size     int64
	modified time.Time
}

func (s *Store) listNumbered(ctx context.Context, folder string, pattern *regexp.Regexp) ([]numbered, error) {
	var found []numbered
	for object, err := range s.listObjects(ctx, folder) {
		if err != nil {
			return nil, err
		}
		if name := pattern.FindStringSubmatch(path.Base(object.Key)); name != nil {
			if n, err := strconv.Atoi(name[1]); err == nil {
				found = append(found, numbered{n, object.Size, object.ModTime})
			}
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	return found, nil
}
