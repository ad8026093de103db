package results

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Objection is why a person finds the grade of an episode wrong.
type Objection struct {
	Episode int64     `json:"episode"`
	Because string    `json:"grade_is_wrong_because"`
	Written time.Time `json:"written"`
}

// MaxObjection bounds the text of an objection, in bytes.
const MaxObjection = 4096

// objectionFolder is beside the shards of a run, with a file for each episode.
const objectionFolder = "objections"

var objectionPattern = regexp.MustCompile(`^([0-9]{1,9})\.json$`)

func objectionKey(run string, episode int64) string {
	return path.Join(run, objectionFolder, fmt.Sprintf("%d.json", episode))
}

// WriteObjection replaces the objection to an episode's grade. One without a text removes it.
func (s *Store) WriteObjection(ctx context.Context, run string, o Objection) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	key := objectionKey(run, o.Episode)
	if o.Because == "" {
		if err := s.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("removing the objection: %w", explainError(err))
		}
		return nil
	}
	if len(o.Because) > MaxObjection {
		return fmt.Errorf("the objection has %d bytes: write at most %d", len(o.Because), MaxObjection)
	}
	data, err := json.MarshalIndent(o, "", "  ")
	if err == nil {
		err = s.bucket.WriteAll(ctx, key, append(data, '\n'), &blob.WriterOptions{ContentType: "application/json"})
	}
	if err != nil {
		return fmt.Errorf("writing the objection: %w", explainError(err))
	}
	return nil
}

// Objections reads the objections to the grades of a run, by episode.
func (s *Store) Objections(ctx context.Context, run string) (map[int64]Objection, error) {
	files, err := s.listNumbered(ctx, path.Join(run, objectionFolder), objectionPattern)
	if err != nil {
		return nil, fmt.Errorf("listing the objections: %w", err)
	}
	found := map[int64]Objection{}
	for _, file := range files {
		episode := int64(file.number)
		if found[episode], err = s.Objection(ctx, run, episode); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Objection reads the objection to the grade of an episode, a zero one if there is none.
func (s *Store) Objection(ctx context.Context, run string, episode int64) (Objection, error) {
	var o Objection
	// JSON writes a byte as up to six.
	data, _, err := s.readObject(ctx, objectionKey(run, episode), 8*MaxObjection)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return o, fmt.Errorf("reading the objection to episode %d: %w", episode, err)
	}
	return o, nil
}
