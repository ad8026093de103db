package score

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/score/bitstream"
	"github.com/csenv/csenv/envserver/score/stats"
)

// MaxSummaryBytes is the size at which Kubernetes cuts a container's termination message.
const MaxSummaryBytes = 4096

const summaryVersion = 2

// Summary is the termination message of a runner whose shard is complete. Only the ledger is
// signed; the rest is reported by the runner.
type Summary struct {
	Version int          `json:"version"`
	Ledger  SignedLedger `json:"ledger"`
	// Errored are the episodes without a score, by class of error. They are in no ledger.
	Errored []ErrorClass `json:"errored,omitempty"`
	// Retried counts the attempts after an episode's first one. RetriedBy counts them by the class
	// of the failure before them.
	Retried   int64            `json:"retried,omitempty"`
	RetriedBy map[string]int64 `json:"retriedBy,omitempty"`
	// Begun is the number of attempts in the ledger that earlier runners of the shard have begun
	// and not ended, and of those that the budget ended.
	Begun int64 `json:"begun,omitempty"`
	// Unplayed is the number of episodes that were not played, because the shard's share of the
	// budget was used up. They are in no ledger and have not errored.
	Unplayed  int64           `json:"unplayed,omitempty"`
	Durations stats.Durations `json:"durations"`
	// Tokens are the tokens of the agent's model, failed attempts included.
	Tokens Tokens `json:"tokens,omitzero"`
	// Mute counts the episodes with a score in which no answer of the agent was an action.
	Mute   int64  `json:"mute,omitempty"`
	Counts Counts `json:"counts,omitzero"`
	Stored Stored `json:"stored,omitzero"`
	// Endpoint is what the rehearsal with the agent's model saw, and what was left out of requests,
	// at most MaxStoreError bytes. Shards other than the plan's first have it if something was left
	// out.
	Endpoint string `json:"endpoint,omitempty"`
}

// Counts are the answers of the agent in episodes with a score, how many of them weren't an action,
// and the replies that alone made their judgement fail.
type Counts struct {
	Answers  int64 `json:"answers,omitempty"`
	NoAction int64 `json:"noAction,omitempty"`
	Unread   int64 `json:"unread,omitempty"`
	// Customer counts what a model did as the customer of these episodes.
	Customer CustomerCounts `json:"customer,omitzero"`
}

// Add adds other counts.
func (c *Counts) Add(o Counts) {
	c.Answers += o.Answers
	c.NoAction += o.NoAction
	c.Unread += o.Unread
	c.Customer.Add(o.Customer)
}

// CustomerCounts count what a model did as the customer of conversations.
type CustomerCounts struct {
	// Answers are the customer's answers, and Replaced those of them in a template's words, because
	// the model worded none that holds.
	Answers  int64 `json:"answers,omitempty"`
	Replaced int64 `json:"replaced,omitempty"`
	// Refused are the wordings that code refused, and Dropped the acts that the model read into
	// messages which don't have them.
	Refused int64 `json:"refused,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`
	// Failed are the messages that the model didn't read and the answers that it didn't word.
	Failed int64 `json:"failed,omitempty"`
	// Tokens are those of the customer's model, apart from the agent's.
	Tokens Tokens `json:"tokens,omitzero"`
}

// Add adds other counts.
func (c *CustomerCounts) Add(o CustomerCounts) {
	c.Answers += o.Answers
	c.Replaced += o.Replaced
	c.Refused += o.Refused
	c.Dropped += o.Dropped
	c.Failed += o.Failed
	c.Tokens.Add(o.Tokens)
}

// valid reports whether a shard can have these counts.
func (c CustomerCounts) valid() bool {
	return c.Answers >= 0 && c.Answers <= maxTokens && c.Replaced >= 0 && c.Replaced <= c.Answers &&
		min(c.Refused, c.Dropped, c.Failed) >= 0 && max(c.Refused, c.Dropped, c.Failed) <= maxTokens && c.Tokens.Valid()
}

// Tokens counts a model's input and output, as reported by its endpoint.
type Tokens struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
}

// Add adds other tokens.
func (t *Tokens) Add(o Tokens) {
	t.Prompt += o.Prompt
	t.Completion += o.Completion
}

// Larger returns the larger of two numbers of tokens.
func (t Tokens) Larger(o Tokens) Tokens {
	if o.Prompt+o.Completion > t.Prompt+t.Completion {
		return o
	}
	return t
}

// Valid reports whether a shard can have these counts.
func (t Tokens) Valid() bool {
	return t.Prompt >= 0 && t.Prompt <= maxTokens && t.Completion >= 0 && t.Completion <= maxTokens
}

// Stored is the number of the shard's episodes in the result store, including errored ones, and
// the reason if some are missing.
type Stored struct {
	Episodes int64 `json:"episodes"`
	// Error has at most MaxStoreError bytes. It is "" if all episodes are stored or no store is
	// configured.
	Error string `json:"error,omitempty"`
}

const (
	// MaxStoreError bounds the text of a store's error in a summary, in bytes.
	MaxStoreError = 200
	// maxTokens bounds a shard's tokens, so that a run's don't overflow.
	maxTokens = 1 << 46
	// MaxClassName bounds the name of a class of errors, in bytes.
	MaxClassName = 32
)

// ErrorClass lists the episodes that errored with one class of error.
type ErrorClass struct {
	Class    string   `json:"class"`
	Episodes IndexSet `json:"episodes"`
}

// The classes of errors after which an episode is played again, and reported as errored in the end.
const (
	ClassUnreachable      = "env_unreachable"    // the connection to the server failed
	ClassEnvironment      = "env_error"          // the environment failed
	ClassCapacity         = "capacity"           // the server has no free session
	ClassTimeout          = "timeout"            // the episode took too long
	ClassPolicy           = "policy_error"       // the policy returned no action
	ClassJudgeFailed      = "judge_failed"       // the judge failed for another reason
	ClassJudgeUnparsable  = "judge_unparsable"   // the judge's reply holds no verdict
	ClassJudgeTimeout     = "judge_timeout"      // the judge took too long
	ClassJudgeUnavailable = "judge_unavailable"  // the judge's endpoint failed
	ClassAgentRateLimited = "agent_rate_limited" // the agent's endpoint allows no more requests
	ClassAgentTimeout     = "agent_timeout"      // the agent took too long
	ClassAgentUnavailable = "agent_unavailable"  // the agent's endpoint failed
	ClassAgentError       = "agent_error"        // the agent's endpoint refused the request
	ClassAgentContext     = "agent_context"      // the conversation is too long for the agent's model
	// OtherClass holds unknown classes, and those for which a summary has no room.
	OtherClass = "other"
)

// ErrorClasses lists the classes that runners report, other than OtherClass.
func ErrorClasses() []string {
	return []string{
		ClassUnreachable, ClassEnvironment, ClassJudgeFailed, ClassJudgeUnparsable, ClassJudgeTimeout,
		ClassJudgeUnavailable, ClassPolicy, ClassTimeout, ClassCapacity, ClassAgentRateLimited, ClassAgentTimeout,
		ClassAgentUnavailable, ClassAgentError, ClassAgentContext,
	}
}

// Encode encodes the summary as JSON. It cuts a store's error to MaxStoreError bytes of plain
// text. If the JSON exceeds MaxSummaryBytes, it merges classes into OtherClass, first classes of
// retries, then of errored episodes, the smallest first. If that isn't enough, it fails.
// Plans prevent this except for very many scattered errored episodes.
func (s Summary) Encode() ([]byte, error) {
	s.Version = summaryVersion
	s.Stored.Error, s.Endpoint = sanitizeText(s.Stored.Error), sanitizeText(s.Endpoint)
	s.RetriedBy, s.Errored = maps.Clone(s.RetriedBy), slices.Clone(s.Errored)
	for {
		data, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encoding summary: %w", err)
		}
		if len(data) <= MaxSummaryBytes {
			return data, nil
		}
		if !s.mergeRetried() && !s.mergeErrored() {
			return nil, fmt.Errorf("encoding summary: %d bytes don't fit in a termination message of %d (%d episodes "+
				"errored)", len(data), MaxSummaryBytes, s.ErroredEpisodes())
		}
	}
}

// mergeRetried merges the smallest class of retries into OtherClass, and reports whether there was
// one.
func (s *Summary) mergeRetried() bool {
	classes := slices.DeleteFunc(slices.Sorted(maps.Keys(s.RetriedBy)),
		func(class string) bool { return class == OtherClass })
	if len(classes) == 0 {
		return false
	}
	smallest := slices.MinFunc(classes, func(a, b string) int { return cmp.Compare(s.RetriedBy[a], s.RetriedBy[b]) })
	s.RetriedBy[OtherClass] += s.RetriedBy[smallest]
	delete(s.RetriedBy, smallest)
	return true
}

// mergeErrored merges the smallest class of errored episodes into OtherClass, and reports whether
// there was one. The episodes stay the same.
func (s *Summary) mergeErrored() bool {
	smallest, other := -1, -1
	for i, c := range s.Errored {
		switch {
		case c.Class == OtherClass:
			other = i
		case smallest < 0 || c.Episodes.Len() < s.Errored[smallest].Episodes.Len():
			smallest = i
		}
	}
	if smallest < 0 {
		return false
	}
	merged := ErrorClass{Class: OtherClass, Episodes: s.Errored[smallest].Episodes.Clone()}
	if other < 0 {
		s.Errored[smallest] = merged
		return true
	}
	for index := range s.Errored[other].Episodes.All {
		merged.Episodes.Add(index)
	}
	s.Errored[other] = merged
	s.Errored = slices.Delete(s.Errored, smallest, smallest+1)
	return true
}

// sanitizeText returns the text as one line without characters that JSON escapes, cut to
// MaxStoreError bytes.
func sanitizeText(text string) string {
	ascii := func(r rune) rune {
		switch {
		case r <= ' ':
			return ' '
		case r > '~':
			return '?'
		case strings.ContainsRune("\"\\<>&", r):
			return '\''
		}
		return r
	}
	text = strings.Join(strings.Fields(strings.Map(ascii, text)), " ")
	return strings.TrimSpace(text[:min(len(text), MaxStoreError)])
}

// DecodeSummary reads an untrusted termination message. An error wraps ErrMalformed.
func DecodeSummary(data []byte) (Summary, error) {
	if len(data) > MaxSummaryBytes {
		return Summary{}, fmt.Errorf("%w: a summary of %d bytes", ErrMalformed, len(data))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var s Summary
	if err := dec.Decode(&s); err != nil {
		return Summary{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if dec.More() {
		return Summary{}, fmt.Errorf("%w: text follows the summary", ErrMalformed)
	}
	if s.Version != summaryVersion {
		return Summary{}, fmt.Errorf("%w: summary version %d is not %d: operator and runner are of different releases",
			ErrMalformed, s.Version, summaryVersion)
	}
	if err := s.validate(); err != nil {
		return Summary{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return s, nil
}

// validate refuses counts that no runner reports, or with which a run's sums could overflow.
func (s Summary) validate() error {
	if s.Retried < 0 || s.Retried > maxCount {
		return fmt.Errorf("%d retries", s.Retried)
	}
	var retried int64
	classes := map[string]bool{}
	for class, attempts := range s.RetriedBy {
		classes[class] = true
		if attempts < 1 || attempts > maxCount {
			return fmt.Errorf("%d retries by class %.40q", attempts, class)
		}
		retried += attempts
	}
	if retried > s.Retried {
		return fmt.Errorf("%d retries by class are more than all %d", retried, s.Retried)
	}
	for _, c := range s.Errored {
		classes[c.Class] = true
	}
	for class := range classes {
		if class == "" || len(class) > MaxClassName || strings.Trim(class, bitstream.Alphabet) != "" {
			return fmt.Errorf("class %.40q is not a name of at most %d letters, digits, dashes and underscores", class,
				MaxClassName)
		}
	}
	if s.Mute < 0 || s.Mute > maxCount {
		return fmt.Errorf("%d episodes without an action", s.Mute)
	}
	if c := s.Counts; c.NoAction < 0 || c.NoAction > c.Answers || c.Answers > maxTokens || c.Unread < 0 ||
		c.Unread > maxCount || !c.Customer.valid() {
		return fmt.Errorf("impossible counts %+v", c)
	}
	if !s.Tokens.Valid() {
		return fmt.Errorf("impossible tokens %+v", s.Tokens)
	}
	if s.Unplayed < 0 || s.Unplayed > maxCount {
		return fmt.Errorf("%d episodes that were not played", s.Unplayed)
	}
	if s.Endpoint != sanitizeText(s.Endpoint) {
		return fmt.Errorf("what was seen of the endpoint, %.200q", s.Endpoint)
	}
	if s.Stored.Episodes < 0 || s.Stored.Episodes > maxCount || s.Stored.Error != sanitizeText(s.Stored.Error) {
		return fmt.Errorf("%d stored episodes with error %.200q", s.Stored.Episodes, s.Stored.Error)
	}
	return nil
}

// ErroredEpisodes is the number of episodes of all error classes.
func (s Summary) ErroredEpisodes() int64 {
	var n int64
	for _, c := range s.Errored {
		n += c.Episodes.Len()
	}
	return n
}

// hasErrored reports whether an episode is in one of the error classes.
func (s Summary) hasErrored(index int64) bool {
	return slices.ContainsFunc(s.Errored, func(c ErrorClass) bool { return c.Episodes.Contains(index) })
}

// The exit codes of a runner without a summary, in addition to 1.
const (
	// ExitAgentRefused means that the agent's endpoint refuses every request.
	ExitAgentRefused = 3
	// ExitAgentUnavailable means that the agent's endpoint didn't answer before anything was
	// played.
	ExitAgentUnavailable = 4
	// ExitStopped is 128 plus the number of SIGTERM, as in shells. It isn't a failure.
	ExitStopped = 143
)
