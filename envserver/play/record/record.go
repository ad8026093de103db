// Package record reads and writes played episodes, one JSON object a line, and grades them again.
//
// A record has the episode's options, the agent's actions and the grade. Environments are
// deterministic, so the actions are enough to play an episode again: with the current rules, and
// with the recorded verdicts or a new judge. Observations are not stored.
package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
)

// MaxLine is the longest record that is read, in bytes: far more than any episode takes.
const MaxLine = 16 << 20

// Episode is one played episode.
type Episode struct {
	// Run is the run's UID and Index the episode's place in its plan.
	Run   string `json:"run,omitempty"`
	Index int64  `json:"index"`
	// Environment is "ticket" or "workflow".
	Environment string             `json:"environment"`
	Task        string             `json:"task"`
	Scenario    string             `json:"scenario"`
	Trial       int                `json:"trial"`
	Seed        int64              `json:"seed"`
	RewardMode  episode.RewardMode `json:"reward_mode"`
	Pressure    bool               `json:"pressure,omitempty"`
	EpisodeID   string             `json:"episode_id,omitempty"`
	// IDKey is the key of the run's ids (see episode.Options), by which actions that name an id can
	// be played again.
	IDKey string `json:"id_key,omitempty"`

	Turns []Turn `json:"turns"`
	// Customer are the exchanges with a customer that is a model, with which the turns are played
	// again without it.
	Customer []episode.Exchange `json:"customer,omitempty"`
	// Attempts is how often the episode was begun, and Tokens are the tokens of all attempts, nil
	// if they are unknown.
	Attempts   int           `json:"attempts"`
	Tokens     *score.Tokens `json:"tokens,omitempty"`
	DurationMS int64         `json:"duration_ms"`
	// Receipt is the signed proof of the grade that counts in the run's figures (see
	// score.VerifyReceipt). An errored episode has none.
	Receipt string `json:"receipt,omitempty"`
	// Replayed is set if the pool has counted an earlier attempt, whose reply was lost: the run's
	// figures have another score than this record.
	Replayed bool `json:"replayed,omitempty"`

	Grade
	// Before is the grade that Regrade replaced.
	Before *Grade `json:"before,omitempty"`
}

// Turn is one action and its reward. An action that doesn't match the schema has the reason in
// Refused and no reward.
type Turn struct {
	Action  json.RawMessage `json:"action"`
	Reward  float64         `json:"reward"`
	Refused string          `json:"refused,omitempty"`
	Answer
}

// Answer is the answer of an agent's model that contained an action.
type Answer struct {
	// Said is the text that the model sent with the action, shortened.
	Said string `json:"said,omitempty"`
	// Tokens counts the answer's tokens, nil if they are unknown.
	Tokens *score.Tokens `json:"tokens,omitempty"`
	// DurationMS is how long the agent took to act, with all requests that were repeated.
	DurationMS int64 `json:"duration_ms,omitempty"`
	// Trace has the tokens themselves, nil unless the model's endpoint returns them.
	Trace *Trace `json:"trace,omitempty"`
}

// Trace has the tokens of an answer, for training on exactly what the model read and wrote.
type Trace struct {
	// PromptIDs are the ids of the prompt's tokens, and IDs the ids of the answer's.
	PromptIDs []int32 `json:"prompt_ids,omitempty"`
	IDs       []int32 `json:"ids,omitempty"`
	// Tokens are the answer's tokens as texts, and LogProbs their natural log-probabilities.
	Tokens   []string  `json:"tokens,omitempty"`
	LogProbs []float64 `json:"logprobs,omitempty"`
}

// Grade is the grade of an episode.
type Grade struct {
	Outcome score.Outcome `json:"outcome"`
	// Class is the class of error of an errored episode, for example judge_failed.
	Class string `json:"class,omitempty"`
	// Score is from 0 to 1, nil for an errored episode.
	Score *float64 `json:"score"`
	// Wrong is set if the episode doesn't pass, whatever its score.
	Wrong bool `json:"wrong,omitempty"`
	// Dimensions are in milli-points.
	Dimensions     []score.Dimension `json:"dimensions,omitempty"`
	Judge          string            `json:"judge,omitempty"`
	GraderVersion  string            `json:"grader_version,omitempty"`
	ScenarioDigest string            `json:"scenario_digest,omitempty"`
	// Verdicts are the judge's, in the order of its calls.
	Verdicts []json.RawMessage `json:"verdicts,omitempty"`
}

// Writer writes records, a line each. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
}

// NewWriter writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write writes one record in a single call of the underlying writer, so that a crash leaves at most
// one broken line, the last.
func (w *Writer) Write(e Episode) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding the record of episode %d: %w", e.Index, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the record of episode %d: %w", e.Index, err)
	}
	return nil
}

// ErrTruncated means that the last line is incomplete. Every record before it has been read.
var ErrTruncated = errors.New("the last record is incomplete: its writer was interrupted")

// ErrNotRecord means that a line is not a record.
var ErrNotRecord = errors.New("not a record of an episode")

// Read reads records line by line. Its errors name the line. Reading continues after a line that is
// not a record, and ends at one that is longer than MaxLine.
func Read(in io.Reader) iter.Seq2[Episode, error] {
	return func(yield func(Episode, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(make([]byte, 0, 64<<10), MaxLine)
		lines.Split(wholeLines)
		for n := 1; lines.Scan(); n++ {
			line, whole := bytes.CutSuffix(lines.Bytes(), []byte{'\n'})
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			e, err := parseEpisode(line)
			if err != nil && !whole {
				err = ErrTruncated
			}
			if err != nil {
				err = fmt.Errorf("line %d: %w", n, err)
			}
			if !yield(e, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Episode{}, fmt.Errorf("reading records: %w", err))
		}
	}
}

// wholeLines splits into lines that keep their end, so that an incomplete last line is detected.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

func parseEpisode(line []byte) (Episode, error) {
	var e Episode
	if err := json.Unmarshal(line, &e); err != nil {
		return Episode{}, fmt.Errorf("%w: %w", ErrNotRecord, err)
	}
	if e.Environment == "" || e.Task == "" || e.Scenario == "" || e.Outcome == "" {
		return Episode{}, fmt.Errorf("%w: it needs environment, task, scenario and outcome", ErrNotRecord)
	}
	if !slices.Contains([]episode.RewardMode{"", episode.Dense, episode.Terminal}, e.RewardMode) {
		return Episode{}, fmt.Errorf("%w: reward_mode is %.40q: it can be %s or %s", ErrNotRecord, e.RewardMode,
			episode.Dense, episode.Terminal)
	}
	return e, nil
}
