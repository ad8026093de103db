// Package results stores the played episodes of runs in an object store or a folder, and reads
// them.
//
// Each run has a folder below the store's URL, NAMESPACE/RUN-UID8, with a manifest and a folder for
// each shard. Object stores can't append, so a shard is a list of segments, 000001.jsonl and so on,
// with a record.Episode on each line. A segment is written once. A runner that plays a shard again
// adds further segments.
//
// An episode may have several records: if it errored and was played again, or if a write succeeded
// that seemed to fail. Readers get the record with the pool's receipt, which is the one that
// counts, or else the last one.
//
// The drivers of cloud stores are large, so only programs that use them import buckets. Folders
// always work.
package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

const (
	manifestName = "manifest.json"
	// maxManifest and maxSegment bound the bytes that are read of a manifest and of a segment.
	maxManifest = 16 << 20
	maxSegment  = segmentBytes + record.MaxLine
	// writeTimeout bounds the writing of an object, readTimeout the reading of an object or of a
	// page of their list.
	writeTimeout = 20 * time.Second
	readTimeout  = 30 * time.Second
)

// Store is a location of stored runs. It is safe for concurrent use.
type Store struct {
	bucket *blob.Bucket
	// folder is where a store of files is, "" for a bucket.
	folder string
}

// Open opens a folder, PATH or file:///PATH, which it creates.
func Open(ctx context.Context, location string) (*Store, error) {
	return OpenWith(ctx, location, func(context.Context, *url.URL) (*blob.Bucket, error) {
		return nil, errors.New("this program reads and writes folders alone")
	})
}

// OpenWith is Open, also for the URL of a bucket and a prefix such as s3://BUCKET/PREFIX with
// parameters. The function opens the bucket. No request is sent yet.
func OpenWith(ctx context.Context, location string,
	open func(context.Context, *url.URL) (*blob.Bucket, error)) (*Store, error) {
	scheme, rest, isURL := strings.Cut(location, "://")
	if !isURL || scheme == "file" {
		if isURL {
			location = rest
		}
		return openFolder(location)
	}
	target, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("opening the result store: %w", errors.Unwrap(err))
	}
	if endpoint := target.Query().Get("endpoint"); endpoint != "" && !strings.Contains(endpoint, "://") {
		return nil, fmt.Errorf("opening the result store: its endpoint %[1]s has no protocol: write http://%[1]s or "+
			"https://%[1]s", endpoint)
	}
	prefix := strings.Trim(target.Path, "/")
	target.Path = ""
	bucket, err := open(ctx, target)
	if err != nil {
		return nil, fmt.Errorf("opening the result store: %w", explainError(err))
	}
	if prefix != "" {
		bucket = blob.PrefixedBucket(bucket, prefix+"/")
	}
	return &Store{bucket: bucket}, nil
}

// openFolder opens a folder. Segments are written to their folder and renamed, because a container
// may have no folder for temporary files, or one on another volume.
func openFolder(folder string) (*Store, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("opening the result store: %w", err)
	}
	bucket, err := fileblob.OpenBucket(absolute, &fileblob.Options{CreateDir: true, NoTempDir: true,
		Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fmt.Errorf("opening the result store: %w", err)
	}
	return &Store{bucket, absolute}, nil
}

// Close closes the store's connections.
func (s *Store) Close() error { return s.bucket.Close() }

// RunFolder is a run's folder below its store.
func RunFolder(namespace, name, uid string) string {
	return path.Join(namespace, name+"-"+uid[:min(len(uid), 8)])
}

// JoinLocation is the location of a folder below a store, where "" is the store itself. The folder
// precedes a URL's parameters.
func JoinLocation(location, folder string) string {
	if folder == "" {
		return location
	}
	base, parameters := location, ""
	if at := strings.Index(location, "?"); at >= 0 && strings.Contains(location[:at], "://") &&
		!strings.HasPrefix(location, "file://") {
		base, parameters = location[:at], location[at:]
	}
	return strings.TrimSuffix(base, "/") + "/" + folder + parameters
}

// Manifest describes a run's episodes.
type Manifest struct {
	// Version of the layout.
	Version int `json:"version"`
	// Environment is "ticket" or "workflow".
	Environment string `json:"environment"`
	// Plan has the seed, the digests, the judge and the pool's public key.
	Plan score.Plan `json:"plan"`
	// Agent is the spec.agent of an EvaluationRun without its secrets.
	Agent json.RawMessage `json:"agent"`
	// Limits are the thresholds and the share of errored episodes that decide the run's outcome.
	Limits json.RawMessage `json:"limits,omitempty"`
	// Labels select a run that was played on a machine, and Note says what it was for.
	Labels map[string]string `json:"labels,omitempty"`
	Note   string            `json:"note,omitempty"`
	// Runner is the version of the program that played.
	Runner string `json:"runner"`
	// Written is when the manifest was written, before the first episode. Those of older releases
	// have the time of their object.
	Written time.Time `json:"written,omitzero"`
}

const layoutVersion = 1

// WriteManifest writes a run's manifest, unless there is one. The run is a
// folder below the store, or "" for the store itself.
func (s *Store) WriteManifest(ctx context.Context, run string, m Manifest) error {
	m.Version, m.Written = layoutVersion, m.Written.UTC().Truncate(time.Second)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	err = s.createObject(ctx, path.Join(run, manifestName), append(data, '\n'))
	if err != nil && !isAlreadyExists(err) {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// Manifest reads a run's manifest.
func (s *Store) Manifest(ctx context.Context, run string) (Manifest, error) {
	text, written, err := s.readObject(ctx, path.Join(run, manifestName), maxManifest)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("reading the manifest of %s: %w", run, err)
	}
	if m.Written.IsZero() {
		m.Written = written
	}
	if m.Version != layoutVersion {
		return Manifest{}, fmt.Errorf("reading the manifest of %s: its layout has version %d, not %d: it was written "+
			"by another release", run, m.Version, layoutVersion)
	}
	return m, nil
}

// readObject reads an object that has no more bytes than the limit, and when it was written.
func (s *Store) readObject(ctx context.Context, key string, limit int64) ([]byte, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading %s: %w", key, explainError(err))
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes and was not written by csenv", limit)
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading %s: %w", key, explainError(err))
	}
	return data, r.ModTime(), nil
}

// createObject writes an object that must not exist yet; see exists. A store without conditional
// writes overwrites it.
func (s *Store) createObject(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	options := &blob.WriterOptions{ContentType: "application/json", IfNotExist: true}
	err := s.bucket.WriteAll(ctx, key, data, options)
	if isUnsupported(err) {
		options.IfNotExist = false
		err = s.bucket.WriteAll(ctx, key, data, options)
	}
	return explainError(err)
}

// isUnsupported reports whether a store has no conditional writes, according to its driver or to
// its reply.
func isUnsupported(err error) bool {
	var coded interface{ ErrorCode() string }
	return gcerrors.Code(err) == gcerrors.Unimplemented || errors.As(err, &coded) &&
		coded.ErrorCode() == "NotImplemented"
}

// isAlreadyExists reports whether an object was not created because it exists.
func isAlreadyExists(err error) bool { return gcerrors.Code(err) == gcerrors.FailedPrecondition }

// maxDepth is the depth of runs below the store: NAMESPACE/RUN-UID8.
const maxDepth = 2

// Runs lists the folders that have a manifest, in order. "" is the store itself, if it is a run's
// own folder.
func (s *Store) Runs(ctx context.Context) ([]string, error) {
	runs, err := s.runsBelow(ctx, "", 0)
	if err != nil {
		return nil, fmt.Errorf("listing the stored runs: %w", err)
	}
	slices.Sort(runs)
	return runs, nil
}

func (s *Store) runsBelow(ctx context.Context, folder string, depth int) ([]string, error) {
	var runs, folders []string
	for object, err := range s.listObjects(ctx, folder) {
		switch {
		case err != nil:
			return nil, err
		case object.IsDir && !strings.HasPrefix(path.Base(object.Key), "."):
			folders = append(folders, strings.TrimSuffix(object.Key, "/"))
		case path.Base(object.Key) == manifestName:
			return []string{folder}, nil
		}
	}
	if depth == maxDepth {
		return nil, nil
	}
	for _, f := range folders {
		below, err := s.runsBelow(ctx, f, depth+1)
		if err != nil {
			return nil, err
		}
		runs = append(runs, below...)
	}
	return runs, nil
}

// listObjects yields the objects and folders of a folder. Symbolic links count as what they lead
// to.
func (s *Store) listObjects(ctx context.Context, folder string) iter.Seq2[*blob.ListObject, error] {
	return func(yield func(*blob.ListObject, error) bool) {
		if s.folder != "" {
			s.listFiles(folder, yield)
			return
		}
		options := &blob.ListOptions{Delimiter: "/"}
		if folder != "" {
			options.Prefix = folder + "/"
		}
		for token := blob.FirstPageToken; len(token) > 0; {
			var objects []*blob.ListObject
			var err error
			if objects, token, err = s.listPage(ctx, token, options); err != nil {
				yield(nil, err)
				return
			}
			for _, object := range objects {
				if !yield(object, nil) {
					return
				}
			}
		}
	}
}

// listFiles is list of a store of files: the bucket's own list follows no links.
func (s *Store) listFiles(folder string, yield func(*blob.ListObject, error) bool) {
	at := filepath.Join(s.folder, filepath.FromSlash(folder))
	files, err := os.ReadDir(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		yield(nil, err)
		return
	}
	for _, f := range files {
		info, err := os.Stat(filepath.Join(at, f.Name()))
		if err != nil {
			continue // it was removed, or is a link to nothing
		}
		if !yield(&blob.ListObject{Key: path.Join(folder, f.Name()), IsDir: info.IsDir(), Size: info.Size(),
			ModTime: info.ModTime()}, nil) {
			return
		}
	}
}

// pageObjects is the maximum size of a page in all stores.
const pageObjects = 1000

// listPage lists a page, and returns the token of the next one.
func (s *Store) listPage(ctx context.Context, token []byte,
	options *blob.ListOptions) (objects []*blob.ListObject, next []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	objects, next, err = s.bucket.ListPage(ctx, token, pageObjects, options)
	return objects, next, explainError(err)
}

// Episodes reads a run's episodes once each, by shard and in the order in which they ended. A
// segment that was cut off ends at its last complete line. An error that is not the last item is
// about one line.
func (s *Store) Episodes(ctx context.Context, run string) iter.Seq2[record.Episode, error] {
	return func(yield func(record.Episode, error) bool) {
		shards, err := s.listShards(ctx, run)
		if err != nil {
			yield(record.Episode{}, fmt.Errorf("listing the shards of %s: %w", run, err))
			return
		}
		for _, shard := range shards {
			for e, err := range s.shardEpisodes(ctx, run, shard.number) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// shardEpisodes reads a shard twice: to choose a record of each episode, and to yield it.
func (s *Store) shardEpisodes(ctx context.Context, run string, shard int) iter.Seq2[record.Episode, error] {
	return func(yield func(record.Episode, error) bool) {
		segments, err := s.listSegments(ctx, run, shard)
		if err != nil {
			yield(record.Episode{}, err)
			return
		}
		type choice struct {
			line    int
			receipt bool
		}
		chosen := map[int64]choice{}
		line := 0
		for e, err := range s.readLines(ctx, run, segments) {
			if before, ok := chosen[e.Index]; err == nil && (!ok || !before.receipt) {
				chosen[e.Index] = choice{line, e.Receipt != ""}
			}
			line++
		}
		line = 0
		for e, err := range s.readLines(ctx, run, segments) {
			if (err != nil || chosen[e.Index].line == line) && !yield(e, err) {
				return
			}
			line++
		}
	}
}

// readLines reads segments one after the other.
func (s *Store) readLines(ctx context.Context, run string, segments []Segment) iter.Seq2[record.Episode, error] {
	return func(yield func(record.Episode, error) bool) {
		for _, segment := range segments {
			for e, err := range s.Segment(ctx, run, segment) {
				if !yield(e, err) || err != nil && !errors.Is(err, record.ErrNotRecord) {
					return
				}
			}
		}
	}
}
