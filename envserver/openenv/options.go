package openenv

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

const (
	// maxOptionText bounds, in characters, the text options of a reset; it is the official server's
	// bound of an episode id.
	maxOptionText = 255
	// maxIntegerDigits bounds the digits of an integer option; it is Python's own bound.
	maxIntegerDigits = 4300
	// defaultPassScore is for a run that doesn't say, in micro-points.
	defaultPassScore = 800_000
)

// seedRule says what happens to a seed that is negative or above score.MaxSeed.
type seedRule bool

const (
	// lenientSeed takes a seed modulo 2^53: nothing is validated in the data of a WebSocket reset
	// officially.
	lenientSeed seedRule = false
	// strictSeed refuses a negative seed, as POST /reset does officially.
	strictSeed seedRule = true
)

// runTag says which evaluation run an episode belongs to: one that planned it, with its UID, or one
// that counts what trainers bring, with its name.
type runTag struct {
	run       string
	rollout   bool
	shard     int
	episode   int64
	passScore int64
}

// resetOptions are the options of a reset that this server knows.
type resetOptions struct {
	episode.Options
	// tag is nil for an episode that belongs to no run.
	tag *runTag
	// split and index are those of the Task API.
	split string
	index *int64
}

// resetData are the known members of a reset's data. All others are ignored: trainers pass whole
// rows of a data set.
type resetData struct {
	Seed       jsontext.Value `json:"seed"`
	EpisodeID  jsontext.Value `json:"episode_id"`
	Task       jsontext.Value `json:"task"`
	Scenario   jsontext.Value `json:"scenario"`
	TaskID     jsontext.Value `json:"task_id"`
	RewardMode jsontext.Value `json:"reward_mode"`
	Split      jsontext.Value `json:"split"`
	Index      jsontext.Value `json:"index"`
	Pressure   jsontext.Value `json:"pressure"`
	Run        jsontext.Value `json:"run"`
	Shard      jsontext.Value `json:"shard"`
	Episode    jsontext.Value `json:"episode"`
	PassScore  jsontext.Value `json:"pass_score"`
}

// optionReader collects the faults of a reset's options. The first element of each one's location
// is where.
type optionReader struct {
	where string
	items []episode.ErrorItem
}

// parseOptions reads the options of a reset from a JSON object, or nothing. A missing or null
// option has its default; a missing seed is drawn.
func parseOptions(data []byte, rule seedRule, where string) (resetOptions, []episode.ErrorItem) {
	var d resetData
	r := optionReader{where: where}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &d); err != nil {
			r.faultf("value_error", where, nil, "the options can't be read: %v", err)
			return resetOptions{}, r.items
		}
	}
	o := resetOptions{Options: episode.Options{
		Seed: r.seed(d.Seed, rule), EpisodeID: r.text("episode_id", d.EpisodeID), Task: r.text("task", d.Task),
		Scenario: r.text("scenario", d.Scenario), RewardMode: r.rewardMode(d.RewardMode),
		Pressure: r.flag("pressure", d.Pressure),
	}}
	if taskID := r.text("task_id", d.TaskID); o.Scenario == "" {
		o.Scenario = taskID
	}
	if o.split = r.text("split", d.Split); o.split != "" && given(d.Index) {
		index := r.integer("index", d.Index, math.MaxInt32)
		o.index = &index
	}
	if o.EpisodeID == "" {
		o.EpisodeID = uuid.NewString()
	}
	if given(d.Run) {
		o.tag = r.tag(d)
	}
	return o, r.items
}

// readOptions reads the options of a reset with the server's defaults, and finds the task that a
// split and an index mean.
func (s *Server) readOptions(data []byte, rule seedRule, where string) (resetOptions, []episode.ErrorItem) {
	o, items := parseOptions(data, rule, where)
	if len(items) > 0 {
		return o, items
	}
	if o.RewardMode == "" {
		o.RewardMode = s.rewardMode
	}
	r := optionReader{where: where}
	s.taskAPI.resolve(s.kind, &o, &r)
	return o, r.items
}

func given(value jsontext.Value) bool { return value != nil && value.Kind() != 'n' }

func (r *optionReader) faultf(kind, name string, value jsontext.Value, format string, args ...any) {
	loc := []any{r.where}
	if name != r.where {
		loc = append(loc, name)
	}
	r.items = append(r.items, errorItem(kind, value, fmt.Sprintf(format, args...), loc...))
}

func (r *optionReader) text(name string, value jsontext.Value) string {
	if !given(value) {
		return ""
	}
	var text string
	if value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
		r.faultf("string_type", name, value, "%s should be a string or null", name)
		return ""
	}
	if utf8.RuneCountInString(text) > maxOptionText {
		r.faultf("string_too_long", name, value, "%s should have at most %d characters", name, maxOptionText)
		return ""
	}
	return text
}

func (r *optionReader) rewardMode(value jsontext.Value) episode.RewardMode {
	mode := episode.RewardMode(strings.ToLower(r.text("reward_mode", value)))
	if mode != "" && mode != episode.Dense && mode != episode.Terminal {
		r.faultf("literal_error", "reward_mode", value, "reward_mode should be %q or %q", episode.Dense,
			episode.Terminal)
	}
	return mode
}

// flag reads an option that is on or off, and off when it is missing.
func (r *optionReader) flag(name string, value jsontext.Value) bool {
	if given(value) && value.Kind() != 't' && value.Kind() != 'f' {
		r.faultf("bool_parsing", name, value, "%s should be true or false", name)
	}
	return value.Kind() == 't'
}

// seed reads a seed or draws one. Integers, floats without a fraction and strings of digits are
// seeds; what lies outside 0 and 2^53 - 1 is taken modulo 2^53, if the rule allows it.
func (r *optionReader) seed(value jsontext.Value, rule seedRule) int64 {
	if !given(value) {
		return rand.Int64N(score.MaxSeed + 1) //nolint:gosec // a seed is no secret: the state reports it
	}
	seed, ok := readInteger(value)
	if !ok {
		r.faultf("int_parsing", "seed", value, "seed should be an integer, such as 7")
		return 0
	}
	if rule == strictSeed && seed.Sign() < 0 {
		r.faultf("greater_than_equal", "seed", value, "seed should be greater than or equal to 0")
		return 0
	}
	return new(big.Int).Mod(seed, big.NewInt(score.MaxSeed+1)).Int64()
}

// integer reads an option that must lie between 0 and most.
func (r *optionReader) integer(name string, value jsontext.Value, most int64) int64 {
	if !given(value) {
		r.faultf("missing", name, nil, "%s is required here", name)
		return 0
	}
	n, ok := readInteger(value)
	if !ok || n.Sign() < 0 || n.Cmp(big.NewInt(most)) > 0 {
		r.faultf("int_parsing", name, value, "%s should be an integer from 0 to %d", name, most)
		return 0
	}
	return n.Int64()
}

func (r *optionReader) tag(d resetData) *runTag {
	if !given(d.Shard) && !given(d.Episode) {
		return r.rolloutTag(d.Run)
	}
	tag := &runTag{
		run: r.text("run", d.Run), shard: int(r.integer("shard", d.Shard, math.MaxInt32)),
		episode: r.integer("episode", d.Episode, math.MaxInt32), passScore: defaultPassScore,
	}
	if given(d.PassScore) {
		tag.passScore = r.integer("pass_score", d.PassScore, score.One)
	}
	if tag.run == "" || len(tag.run) > maxRunID {
		r.faultf("value_error", "run", d.Run, "run should be the UID of an evaluation run, at most %d bytes", maxRunID)
	}
	return tag
}

// rolloutTag reads the tag of an episode that a trainer brings.
func (r *optionReader) rolloutTag(value jsontext.Value) *runTag {
	tag := &runTag{run: r.text("run", value), rollout: true}
	if len(r.items) == 0 && !score.ValidTag(tag.run) {
		r.faultf("value_error", "run", value, "run should be the name of an EvaluationRun, such as \"grpo-7\", or "+
			"\"namespace/grpo-7\" where the pool is in another namespace")
	}
	return tag
}

// readInteger reads an integer, a float without a fraction, or a string of one of those.
func readInteger(value jsontext.Value) (*big.Int, bool) {
	text := string(value)
	if value.Kind() == '"' && json.Unmarshal(value, &text) != nil {
		return nil, false
	}
	text = strings.TrimSpace(text)
	if digits := strings.TrimPrefix(text, "-"); digits != "" && strings.Trim(digits, "0123456789") == "" {
		if len(digits) > maxIntegerDigits {
			return nil, false
		}
		return new(big.Int).SetString(text, 10)
	}
	if value.Kind() != '0' {
		return nil, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) {
		return nil, false
	}
	n, _ := big.NewFloat(f).Int(nil)
	return n, true
}
