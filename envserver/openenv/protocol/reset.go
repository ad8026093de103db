package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios/source"
	"github.com/csenv/csenv/tasks"
)

// Namespace is the member of a reset whose value is an object of options. With it, nothing else in
// the reset is an option but the seed and the episode's id.
const Namespace = "csenv"

// flatAdvice ends the refusal of an option outside the namespace.
const flatAdvice = `; if this is a column of your data set, add "csenv": {} to the reset, so that only the options ` +
	`in it count`

const (
	// MaxOptionText bounds the text options of a reset, in characters, as the official server does
	// for episode ids.
	MaxOptionText = 255
	// maxIntegerDigits bounds the digits of an integer option, as Python does.
	maxIntegerDigits = 4300
	// MaxRunID bounds the UID of a run, in bytes.
	MaxRunID = 64
)

// PenaltyOption is the option of a reset that answers invalid actions with an observation and this
// penalty as a negative reward.
const PenaltyOption = "invalid_action_penalty"

// SeedRule determines which seeds are refused.
type SeedRule int

const (
	// LenientSeed takes every integer modulo 2^53, and makes a seed of other numbers and texts,
	// because the official server validates no WebSocket reset.
	LenientSeed SeedRule = iota
	// typedSeed takes every integer modulo 2^53 and nothing else.
	typedSeed
	// StrictSeed refuses a negative seed too, as the official POST /reset does.
	StrictSeed
)

// RunTag names the run of an episode by its UID or, for a rollout, by the name of a run of type
// External.
type RunTag struct {
	Run       string
	Rollout   bool
	Shard     int
	Episode   int64
	PassScore int64
	// Turn is the turn in the answer with which the runner began the shard, 0 for any.
	Turn int64
	// Credential is the run's, "" for none.
	Credential string
}

// ResetOptions are the known options of a reset.
type ResetOptions struct {
	episode.Options
	// Tag is nil for an episode that belongs to no run.
	Tag *RunTag
	// Split and Index name an entry of the Task API.
	Split string
	Index *int64
	// Row and Evaluation are AgileRL's: a row of the split for training, or for evaluations.
	Row        *int64
	Evaluation bool
	// Penalty is the penalty of an invalid action in milli-points, nil to answer it with an error.
	Penalty *int64
	// Flat is true for options outside the namespace, which may be columns of a data set.
	Flat bool
	// Ignored are the first names of members that aren't options, in the order of the request.
	Ignored []string
}

// Advise adds to the refusal of an option how to send a column of a data set with its name.
func (o ResetOptions) Advise(message string) string {
	if o.Flat {
		return message + flatAdvice
	}
	return message
}

// resetData has the known members of a reset's data. Others are ignored outside the namespace,
// because trainers pass whole rows of a data set.
type resetData struct {
	seed, episodeID, task, scenario, taskID, rewardMode, split, index, pressure, run, shard, episode,
	passScore, turn, credential, row, evaluation, penalty jsontext.Value
}

// resetOptions are the known members by name.
var resetOptions = map[string]func(d *resetData) *jsontext.Value{
	"seed":           func(d *resetData) *jsontext.Value { return &d.seed },
	"episode_id":     func(d *resetData) *jsontext.Value { return &d.episodeID },
	"task":           func(d *resetData) *jsontext.Value { return &d.task },
	"scenario":       func(d *resetData) *jsontext.Value { return &d.scenario },
	"task_id":        func(d *resetData) *jsontext.Value { return &d.taskID },
	"reward_mode":    func(d *resetData) *jsontext.Value { return &d.rewardMode },
	"split":          func(d *resetData) *jsontext.Value { return &d.split },
	"index":          func(d *resetData) *jsontext.Value { return &d.index },
	"pressure":       func(d *resetData) *jsontext.Value { return &d.pressure },
	"run":            func(d *resetData) *jsontext.Value { return &d.run },
	"shard":          func(d *resetData) *jsontext.Value { return &d.shard },
	"episode":        func(d *resetData) *jsontext.Value { return &d.episode },
	"pass_score":     func(d *resetData) *jsontext.Value { return &d.passScore },
	"turn":           func(d *resetData) *jsontext.Value { return &d.turn },
	"run_credential": func(d *resetData) *jsontext.Value { return &d.credential },
	"row_index":      func(d *resetData) *jsontext.Value { return &d.row },
	"evaluation":     func(d *resetData) *jsontext.Value { return &d.evaluation },
	PenaltyOption:    func(d *resetData) *jsontext.Value { return &d.penalty },
}

// option returns the known member with a name, or nil.
func (d *resetData) option(name string) *jsontext.Value {
	if of := resetOptions[name]; of != nil {
		return of(d)
	}
	return nil
}

// sessionOption is the member of an HTTP request that names its session.
const sessionOption = "session_id"

// optionNames are the names of the options, sorted.
var optionNames = slices.Sorted(maps.Keys(resetOptions))

// maxIgnored is the maximum number of ignored names that an answer has.
const maxIgnored = 16

// readFlat reads the options outside the namespace, and returns the names of other members. One
// that may be a misspelt option is a fault. Members of a type that the option never has are columns
// of a data set.
func (d *resetData) readFlat(members object.Object, r *OptionReader) (ignored []string) {
	for _, m := range members.TakeBy(d.option) {
		at := slices.IndexFunc(optionNames, func(name string) bool {
			return !IsGiven(*d.option(name)) && isMisspelt(m.Name, name)
		})
		switch {
		case at >= 0:
			r.Faultf("extra_forbidden", m.Name, nil,
				"a reset has no option %q: did you mean %q?", m.Name, optionNames[at])
		case len(ignored) < maxIgnored && m.Name != Namespace && m.Name != sessionOption:
			ignored = append(ignored, ClipMessage(m.Name))
		}
	}
	for _, text := range []*jsontext.Value{&d.task, &d.scenario, &d.taskID, &d.rewardMode, &d.split, &d.run} {
		if text.Kind() != '"' {
			*text = nil
		}
	}
	d.pressure, d.evaluation = flatFlag(d.pressure), flatFlag(d.evaluation)
	d.row, d.penalty = flatNumber(d.row), flatNumber(d.penalty)
	if d.episodeID.Kind() == '0' {
		d.episodeID = jsontext.Value(`"` + string(d.episodeID) + `"`)
	}
	return ignored
}

var separators = strings.NewReplacer("_", "", "-", "")

// isMisspelt reports whether a name differs from an option's in one letter, in case or separators,
// or has its letters in another order. Misspelt words keep their first letter, unlike the column
// mask beside the option task; and run is near to too many words.
func isMisspelt(name, option string) bool {
	plain := func(s string) string { return strings.ToLower(separators.Replace(s)) }
	name, option = plain(name), plain(option)
	letters := func(s string) []byte { return slices.Sorted(slices.Values([]byte(s))) }
	return len(name) > 3 && name[0] == option[0] && option != "run" && (source.EditDistance(name, option) < 2 ||
		slices.Equal(letters(name), letters(option)))
}

// flatFlag returns a boolean or the text of one, which the URL of an MCP client has, else nil.
func flatFlag(value jsontext.Value) jsontext.Value {
	switch text, _ := ReadText(value); {
	case strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		return jsontext.Value(strings.ToLower(text))
	case value.Kind() == 't' || value.Kind() == 'f':
		return value
	}
	return nil
}

// flatNumber returns a number or the text of one, else nil.
func flatNumber(value jsontext.Value) jsontext.Value {
	text, _ := ReadText(value)
	if number := jsontext.Value(strings.TrimSpace(text)); number.Kind() == '0' && number.IsValid() {
		return number
	}
	if value.Kind() == '0' {
		return value
	}
	return nil
}

// readNamespace reads the options of a reset that has the namespace.
func (d *resetData) readNamespace(members object.Object, r *OptionReader) {
	own, err := object.Read(members.Get(Namespace), object.Unique)
	if err != nil {
		r.Faultf("dict_type", Namespace, nil, "%s should be a JSON object of options: %v", Namespace, err)
		return
	}
	others := own.TakeBy(d.option)
	if d.episodeID == nil {
		d.episodeID = members.Get("episode_id")
	}
	r.inner = Namespace
	for _, item := range ExtraItems("reset", others) {
		r.Faultf(item.Type, fmt.Sprint(item.Loc[0]), nil, "a reset has no option %q", item.Loc[0])
	}
}

// OptionReader collects the faults of options, whose locations begin with Where.
type OptionReader struct {
	Where string
	Items []episode.ErrorItem
	// inner follows Where in locations, "" for none.
	inner string
	// advice ends every message.
	advice string
}

// ParseReset reads the options of a reset from a JSON object or empty data. Missing and null
// options have their defaults; a missing seed is drawn. Options are the members of the namespace
// or, without it, of the object itself.
func ParseReset(data []byte, rule SeedRule, where string) (ResetOptions, []episode.ErrorItem) {
	var d resetData
	r, flat := OptionReader{Where: where}, true
	var ignored []string
	if len(data) > 0 {
		members, err := object.Read(data, object.Unique)
		if err != nil {
			r.Faultf("value_error", where, nil, "the options can't be read: %v", err)
			return ResetOptions{}, r.Items
		}
		flat = !IsGiven(members.Get(Namespace))
		if flat {
			r.advice = flatAdvice
			ignored = d.readFlat(members, &r)
		} else {
			d.readNamespace(members, &r)
			if IsGiven(d.seed) {
				rule = max(rule, typedSeed)
			} else {
				d.seed = members.Get("seed")
			}
		}
	}
	o := ResetOptions{Options: episode.Options{
		Seed: r.seed(d.seed, rule), EpisodeID: r.Text("episode_id", d.episodeID), Task: r.Text("task", d.task),
		Scenario: r.Text("scenario", d.scenario), RewardMode: r.rewardMode(d.rewardMode),
		Pressure: r.flag("pressure", d.pressure),
	}, Flat: flat, Ignored: ignored, Evaluation: r.flag("evaluation", d.evaluation), Penalty: r.penalty(d.penalty)}
	if IsGiven(d.row) {
		o.Row = new(r.Integer("row_index", d.row, math.MaxInt32))
	}
	if taskID := r.Text("task_id", d.taskID); o.Scenario == "" {
		o.Scenario = taskID
	}
	if o.Split = r.Text("split", d.split); o.Split != "" && IsGiven(d.index) {
		o.Index = new(r.Integer("index", d.index, math.MaxInt32))
	}
	if o.EpisodeID == "" {
		o.EpisodeID = uuid.NewString()
	}
	if IsGiven(d.run) {
		o.Tag = r.tag(d)
	}
	return o, r.Items
}

// IsGiven reports whether a member is present and not null.
func IsGiven(value jsontext.Value) bool { return value != nil && value.Kind() != 'n' }

// Faultf adds a fault of an option, or of the whole object if the name is Where.
func (r *OptionReader) Faultf(kind, name string, value jsontext.Value, format string, args ...any) {
	loc := []any{r.Where}
	if r.inner != "" {
		loc = append(loc, r.inner)
	}
	if name != r.Where {
		loc = append(loc, name)
	}
	msg := ClipMessage(fmt.Sprintf(format, args...))
	if name != "seed" && name != r.Where {
		msg += r.advice
	}
	r.Items = append(r.Items, NewErrorItem(kind, value, msg, loc...))
}

// Text reads an optional text, "" by default.
func (r *OptionReader) Text(name string, value jsontext.Value) string {
	if !IsGiven(value) {
		return ""
	}
	var text string
	if value.Kind() != '"' || jsonv2.Unmarshal(value, &text) != nil {
		r.Faultf("string_type", name, value, "%s should be a string or null", name)
		return ""
	}
	if utf8.RuneCountInString(text) > MaxOptionText {
		r.Faultf("string_too_long", name, value, "%s should have at most %d characters", name, MaxOptionText)
		return ""
	}
	return text
}

func (r *OptionReader) rewardMode(value jsontext.Value) episode.RewardMode {
	mode := episode.RewardMode(strings.ToLower(r.Text("reward_mode", value)))
	if mode != "" && mode != episode.Dense && mode != episode.Terminal {
		r.Faultf("literal_error", "reward_mode", value, "reward_mode should be %q or %q", episode.Dense,
			episode.Terminal)
	}
	return mode
}

// penalty reads a penalty in points, nil for none. Rewards have three decimals, and so has it.
func (r *OptionReader) penalty(value jsontext.Value) *int64 {
	if !IsGiven(value) {
		return nil
	}
	points, err := strconv.ParseFloat(string(value), 64)
	milli := math.Round(points * 1000)
	if value.Kind() != '0' || err != nil || points < 0 || points > 1 || math.Abs(points*1000-milli) > 1e-9 {
		r.Faultf("value_error", PenaltyOption, value,
			"%s should be a number from 0 to 1 with at most three decimals, such as 0.1", PenaltyOption)
		return nil
	}
	return new(int64(milli))
}

// flag reads an optional boolean, false by default.
func (r *OptionReader) flag(name string, value jsontext.Value) bool {
	if IsGiven(value) && value.Kind() != 't' && value.Kind() != 'f' {
		r.Faultf("bool_parsing", name, value, "%s should be true or false", name)
	}
	return value.Kind() == 't'
}

// seed reads a seed (see readInteger) modulo 2^53, or draws one. As in Python, true is 1.
func (r *OptionReader) seed(value jsontext.Value, rule SeedRule) int64 {
	if !IsGiven(value) {
		return rand.Int64N(score.MaxSeed + 1) //nolint:gosec // the state reports seeds: they aren't secret
	}
	if value.Kind() == 't' {
		return 1
	}
	if value.Kind() == 'f' {
		return 0
	}
	seed, ok := readInteger(value)
	if !ok && rule == LenientSeed && (value.Kind() == '0' || value.Kind() == '"') {
		return hashedSeed(value)
	}
	if !ok {
		r.Faultf("int_parsing", "seed", value, "seed should be an integer, such as 7")
		return 0
	}
	if rule == StrictSeed && seed.Sign() < 0 {
		r.Faultf("greater_than_equal", "seed", value, "seed should be greater than or equal to 0")
		return 0
	}
	return new(big.Int).Mod(seed, big.NewInt(score.MaxSeed+1)).Int64()
}

// hashedSeed makes a seed of a number or text that isn't an integer. Equal values give equal seeds.
func hashedSeed(value jsontext.Value) int64 {
	text, isText := ReadText(value)
	if f, err := strconv.ParseFloat(string(value), 64); err == nil {
		text = strconv.FormatFloat(f, 'g', -1, 64)
	} else if !isText {
		text = string(value)
	}
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:]) & score.MaxSeed)
}

// Integer reads a required option from 0 to most.
func (r *OptionReader) Integer(name string, value jsontext.Value, most int64) int64 {
	if !IsGiven(value) {
		r.Faultf("missing", name, nil, "%s is required here", name)
		return 0
	}
	n, ok := readInteger(value)
	if !ok || n.Sign() < 0 || n.Cmp(big.NewInt(most)) > 0 {
		r.Faultf("int_parsing", name, value, "%s should be an integer from 0 to %d", name, most)
		return 0
	}
	return n.Int64()
}

func (r *OptionReader) tag(d resetData) *RunTag {
	if !IsGiven(d.shard) && !IsGiven(d.episode) {
		return r.rolloutTag(d.run)
	}
	tag := &RunTag{
		Run: r.Text("run", d.run), Shard: int(r.Integer("shard", d.shard, math.MaxInt32)),
		Episode: r.Integer("episode", d.episode, math.MaxInt32), PassScore: tasks.PassScore(),
		Credential: r.Text("run_credential", d.credential),
	}
	if IsGiven(d.passScore) {
		tag.PassScore = r.Integer("pass_score", d.passScore, score.One)
	}
	if IsGiven(d.turn) {
		tag.Turn = r.Integer("turn", d.turn, math.MaxInt64)
	}
	if tag.Run == "" || len(tag.Run) > MaxRunID {
		r.Faultf("value_error", "run", d.run, "run should be the UID of an evaluation run, at most %d bytes", MaxRunID)
	}
	return tag
}

// rolloutTag reads the tag of an episode for a run of type External.
func (r *OptionReader) rolloutTag(value jsontext.Value) *RunTag {
	tag := &RunTag{Run: r.Text("run", value), Rollout: true}
	if len(r.Items) == 0 && !score.ValidTag(tag.Run) {
		r.Faultf("value_error", "run", value, `run should be the name of an EvaluationRun, such as "grpo-7", or `+
			`"namespace/grpo-7" if the pool is in another namespace`)
	}
	return tag
}

// readInteger reads an integer, a float without a fraction, or a string of one of those.
func readInteger(value jsontext.Value) (*big.Int, bool) {
	text := string(value)
	if value.Kind() == '"' && jsonv2.Unmarshal(value, &text) != nil {
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

// Bound reads an integer of either sign, nil for a missing one.
func (r *OptionReader) Bound(name string, value jsontext.Value, required bool) *int64 {
	switch {
	case value == nil && required:
		r.Faultf("missing", name, nil, "Field required")
		return nil
	case !required && !IsGiven(value):
		return nil
	}
	n, ok := readInteger(value)
	if !ok || !n.IsInt64() {
		r.Faultf("int_parsing", name, value, "%s should be an integer", name)
		return nil
	}
	return new(n.Int64())
}
