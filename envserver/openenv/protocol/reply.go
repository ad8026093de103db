package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
)

// EncodeJSON appends the compact JSON of v. On error, out is as before.
func EncodeJSON(out *bytes.Buffer, v any) error {
	if a, ok := v.(episode.Appender); ok {
		text, err := a.AppendJSON(out.AvailableBuffer())
		if err == nil {
			out.Write(text)
		}
		return err
	}
	mark := out.Len()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		out.Truncate(mark)
		return err
	}
	out.Truncate(out.Len() - 1) // the encoder ends with a newline
	return nil
}

// final is the metadata of the observation that ends an episode.
type final struct {
	// EpisodeScore and ScoreBreakdown are missing for an errored episode, which has no score, and
	// for one whose score is withheld.
	EpisodeScore   json.Number `json:"episode_score,omitempty"`
	ScoreBreakdown []points    `json:"score_breakdown,omitempty"`
	// Right is false if the episode doesn't pass, whatever its score. It is missing where the score
	// is.
	Right          *bool             `json:"right,omitempty"`
	Outcome        score.Outcome     `json:"outcome"`
	Judge          string            `json:"judge"`
	ScenarioDigest string            `json:"scenario_digest"`
	GraderVersion  string            `json:"grader_version"`
	Verdicts       []json.RawMessage `json:"verdicts,omitempty"` // of the judge
	// Customer are the exchanges with a customer that is a model.
	Customer []episode.Exchange `json:"customer,omitempty"`
	// Cause is the class of an errored episode's failure, and Detail describes it in a run.
	Cause  string `json:"cause,omitempty"`
	Detail string `json:"cause_detail,omitempty"`
	// Forked is true if another session has, or had, the beginning of the episode.
	Forked bool `json:"forked,omitempty"`
	// Receipt is a signed score.Receipt, only for a run's episode that was not counted before.
	Receipt string `json:"receipt,omitempty"`
}

type points struct {
	Name    string      `json:"name"`
	Earned  json.Number `json:"earned"`
	Offered json.Number `json:"offered"`
}

func newFinal(kind episode.Kind, f *episode.Final) final {
	m := final{Outcome: f.Outcome, Judge: f.Judge, ScenarioDigest: kind.ScenarioDigest(),
		GraderVersion: kind.GraderVersion(), Forked: f.Forked, Customer: f.Customer}
	if f.Outcome == score.Errored {
		m.Cause, m.Detail = f.Cause, ClipMessage(f.Detail)
		return m
	}
	m.Verdicts, m.Receipt = f.Verdicts, f.Receipt
	if f.Outcome == score.Withheld {
		return m
	}
	m.Right = new(!f.Wrong)
	m.EpisodeScore = json.Number(appendFixed(nil, f.Score, 6))
	for _, d := range f.Dimensions {
		m.ScoreBreakdown = append(m.ScoreBreakdown, points{
			Name: d.Name, Earned: json.Number(appendFixed(nil, d.Earned, 3)),
			Offered: json.Number(appendFixed(nil, d.Offered, 3)),
		})
	}
	return m
}

// appendFixed writes v/10^places exactly, with at least one decimal, so that readers decode a
// float, and no trailing zeros.
func appendFixed(b []byte, v int64, places int) []byte {
	digits, negative := strings.CutPrefix(strconv.FormatInt(v, 10), "-")
	if missing := places + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if negative {
		b = append(b, '-')
	}
	whole := len(digits) - places
	b = append(b, digits[:whole]...)
	b = append(b, '.', digits[whole])
	return append(b, strings.TrimRight(digits[whole+1:], "0")...)
}

// WriteResult appends {"observation", "reward", "done"}. At the end of an episode it adds
// "metadata", which is repeated in the observation. After a reset with unknown options "metadata"
// names these, and the observation is the same as without them.
func WriteResult(out *bytes.Buffer, kind episode.Kind, r episode.Result) error {
	mark := out.Len()
	out.WriteString(`{"observation":`)
	var metadata, embedded []byte
	err := EncodeJSON(out, r.Observation)
	switch {
	case err == nil && r.Final != nil:
		metadata, err = json.Marshal(newFinal(kind, r.Final))
		embedded = metadata
	case err == nil && len(r.Ignored) > 0:
		metadata, err = json.Marshal(map[string][]string{"ignored_options": r.Ignored})
	}
	if err == nil {
		err = embedMetadata(out, mark+len(`{"observation":`), embedded)
	}
	if err != nil {
		out.Truncate(mark)
		return fmt.Errorf("encoding the observation: %w", err)
	}
	out.WriteString(`,"reward":`)
	if r.Final != nil && (r.Final.Outcome == score.Errored || r.Final.Outcome == score.Withheld) {
		out.WriteString("null") // 0 would be a score
	} else {
		out.Write(appendFixed(out.AvailableBuffer(), r.Reward, 3))
	}
	out.WriteString(`,"done":`)
	out.Write(strconv.AppendBool(out.AvailableBuffer(), r.Done))
	if metadata != nil {
		out.WriteString(`,"metadata":`)
		out.Write(metadata)
	}
	out.WriteByte('}')
	return nil
}

// embedMetadata makes the metadata a member of the observation, an object that begins at start.
func embedMetadata(out *bytes.Buffer, start int, metadata []byte) error {
	observation := out.Bytes()[start:]
	if len(observation) < 2 || observation[0] != '{' {
		return fmt.Errorf("the environment's observation is not a JSON object but %.20q", observation)
	}
	if metadata == nil {
		return nil
	}
	out.Truncate(out.Len() - 1)
	if len(observation) > 2 {
		out.WriteByte(',')
	}
	out.WriteString(`"metadata":`)
	out.Write(metadata)
	out.WriteByte('}')
	return nil
}
