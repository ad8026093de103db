package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// resets makes the reset messages of episodes, which differ only in the seed.
type resets struct {
	// head and tail are the message before and after the seed.
	head, tail []byte
	first      int64
}

func newResets(data json.RawMessage, first int64) (resets, error) {
	fields := map[string]json.RawMessage{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &fields); err != nil {
			return resets{}, fmt.Errorf("reading the data of a reset message: %w", err)
		}
	}
	delete(fields, "seed")
	rest, err := json.Marshal(fields)
	if err != nil {
		return resets{}, fmt.Errorf("encoding a reset message: %w", err)
	}
	rest = bytes.TrimPrefix(rest, []byte("{"))
	if len(fields) > 0 {
		rest = append([]byte(","), rest...)
	}
	return resets{head: []byte(`{"type":"reset","data":{"seed":`), tail: append(rest, '}'), first: first}, nil
}

// message appends the reset message of an episode.
func (r *resets) message(to []byte, episode int64) []byte {
	to = append(to, r.head...)
	to = strconv.AppendInt(to, r.first+episode, 10)
	return append(to, r.tail...)
}
