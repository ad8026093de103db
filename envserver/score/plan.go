package score

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// MaxSeed is the largest seed of a run or an episode: 2^53 - 1, which every JSON reader keeps
// exactly.
const MaxSeed = 1<<53 - 1

// MaxTrials bounds the trials of a task, and so the columns of a shard's ledger.
const MaxTrials = 1000

// namePattern is what a task name or a scenario id may look like. The bound on a shard's summary
// counts on it.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)

// Plan is a run's list of episodes in closed form: nobody stores the list. It is immutable once
// made, and its JSON is what a runner reads.
type Plan struct {
	// Run is the UID of the EvaluationRun.
	Run string `json:"run"`
	// Seed is the run's seed, from which every episode's seed is derived.
	Seed int64 `json:"seed"`
	// Shards is the number of parts that are played independently, at most one part for each
	// scenario.
	Shards int `json:"shards"`
	// PassScore is the least score, in micro-points, with which an episode passes.
	PassScore int64 `json:"passScore"`
	// Pressure has the episodes played under simulated time, where their task can be.
	Pressure bool `json:"pressure,omitempty"`
	// ScenarioDigest, GraderVersion and Judge are what the pool must report. A runner refuses a pod
	// that differs.
	ScenarioDigest string `json:"scenarioDigest"`
	GraderVersion  string `json:"graderVersion"`
	Judge          string `json:"judge"`
	// LedgerKey is the public half, in base64, of the key with which the pool signs its ledgers.
	LedgerKey string `json:"ledgerKey"`
	// Tasks in the order of the run's spec.
	Tasks []PlanTask `json:"tasks"`
}

// PlanTask is a task and what is played of it: each scenario as often as Trials says.
type PlanTask struct {
	Name   string `json:"name"`
	Trials int    `json:"trials"`
	// Scenarios are the ids, sorted and distinct.
	Scenarios []string `json:"scenarios"`
}

// PlannedEpisode is one episode of a plan.
type PlannedEpisode struct {
	// Index counts a run's episodes from 0: by scenario in sorted order, then by task in the plan's
	// order, then by trial.
	Index    int64
	Task     string
	Scenario string
	Trial    int
	Seed     int64
	// Pressure has the episode played under simulated time, where its task can be.
	Pressure bool
}

// NewPlan completes and validates a plan: it sorts the scenarios of each task and sets Shards to
// the least number that is at least parallelism, at most the number of scenarios, and keeps every
// shard's summary within [MaxSummaryBytes]. The given Shards is ignored.
func NewPlan(draft Plan, parallelism int) (Plan, error) {
	p := draft
	p.Tasks = make([]PlanTask, len(draft.Tasks))
	for i, t := range draft.Tasks {
		t.Scenarios = slices.Sorted(slices.Values(t.Scenarios))
		p.Tasks[i] = t
	}
	if err := p.validate(); err != nil {
		return Plan{}, err
	}
	scenarios := len(p.scenarios())
	p.Shards = min(max(parallelism, 1), scenarios)
	for p.Shards < scenarios && p.largestLedger() > maxPlannedLedgerBytes {
		p.Shards++
	}
	return p, nil
}

// ParsePlan reads the JSON of a plan that NewPlan has made. It refuses unknown fields, so that an
// old runner doesn't play half of a newer plan.
func ParsePlan(data []byte) (Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var p Plan
	if err := dec.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("parsing plan: %w", err)
	}
	if err := p.validate(); err != nil {
		return Plan{}, err
	}
	if scenarios := len(p.scenarios()); p.Shards < 1 || p.Shards > scenarios {
		return Plan{}, fmt.Errorf("invalid plan: %d shards for %d scenarios", p.Shards, scenarios)
	}
	return p, nil
}

// Fingerprint is "sha256:" and the hex digest of the plan's JSON. It tells whether a plan that was
// kept where others can write is still the one that was made.
func (p Plan) Fingerprint() (string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("fingerprinting plan: %w", err)
	}
	sum := sha256.Sum256(data)
	return bitstream.DigestPrefix + hex.EncodeToString(sum[:]), nil
}

func (p Plan) validate() error {
	var errs []error
	if p.Run == "" {
		errs = append(errs, errors.New("run is empty"))
	}
	if p.Seed < 0 || p.Seed > MaxSeed {
		errs = append(errs, fmt.Errorf("seed %d is not within 0 and %d", p.Seed, int64(MaxSeed)))
	}
	if p.PassScore < 0 || p.PassScore > One {
		errs = append(errs, fmt.Errorf("passScore %s is not within 0 and 1", Decimal(p.PassScore)))
	}
	if len(p.Tasks) == 0 {
		errs = append(errs, errors.New("it has no tasks"))
	}
	seen := map[string]bool{}
	for _, t := range p.Tasks {
		if seen[t.Name] {
			errs = append(errs, fmt.Errorf("task %q appears twice", t.Name))
		}
		seen[t.Name] = true
		errs = append(errs, t.validate())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("invalid plan: %w", err)
	}
	return nil
}

func (t PlanTask) validate() error {
	if !namePattern.MatchString(t.Name) {
		return fmt.Errorf("task name %q: use 1 to 32 letters, digits and dashes", t.Name)
	}
	if t.Trials < 1 || t.Trials > MaxTrials {
		return fmt.Errorf("task %s: %d trials: use 1 to %d", t.Name, t.Trials, MaxTrials)
	}
	if len(t.Scenarios) == 0 {
		return fmt.Errorf("task %s selects no scenario", t.Name)
	}
	for i, id := range t.Scenarios {
		if !namePattern.MatchString(id) {
			return fmt.Errorf("task %s: scenario id %q: use 1 to 32 letters, digits and dashes", t.Name, id)
		}
		if i > 0 && t.Scenarios[i-1] >= id {
			return fmt.Errorf("task %s: scenario ids are not sorted and distinct at %q", t.Name, id)
		}
	}
	return nil
}

// scenarios is the sorted union of the tasks' scenarios.
func (p Plan) scenarios() []string {
	var union []string
	for _, t := range p.Tasks {
		union = append(union, t.Scenarios...)
	}
	slices.Sort(union)
	return slices.Compact(union)
}

// Episodes is the number of episodes of all shards.
func (p Plan) Episodes() int64 {
	var n int64
	for _, t := range p.Tasks {
		n += int64(t.Trials) * int64(len(t.Scenarios))
	}
	return n
}

// Shard yields the episodes of shard i, from 0 to Shards-1, in the order of their index. Scenario j
// of the sorted union belongs to shard j mod Shards with all its tasks and trials, so that every
// cluster of the statistics lies in one shard.
func (p Plan) Shard(i int) iter.Seq[PlannedEpisode] {
	return func(yield func(PlannedEpisode) bool) {
		var index int64
		for j, scenario := range p.scenarios() {
			for _, t := range p.Tasks {
				if _, selected := slices.BinarySearch(t.Scenarios, scenario); !selected {
					continue
				}
				if j%p.Shards == i && !p.trials(t, scenario, index, yield) {
					return
				}
				index += int64(t.Trials)
			}
		}
	}
}

func (p Plan) trials(t PlanTask, scenario string, first int64, yield func(PlannedEpisode) bool) bool {
	for trial := range t.Trials {
		seed := EpisodeSeed(p.Seed, t.Name, scenario, trial)
		if !yield(PlannedEpisode{Index: first + int64(trial), Task: t.Name, Scenario: scenario, Trial: trial,
			Seed: seed, Pressure: p.Pressure}) {
			return false
		}
	}
	return true
}

// EpisodeSeed derives an episode's seed: the first 53 bits of SHA-256 over the run's seed, the
// task, the scenario and the trial, integers as 8 bytes big-endian and strings prefixed by their
// length as such an integer. It doesn't depend on the other episodes, so that adding a scenario to
// a run leaves the rest as it was.
func EpisodeSeed(runSeed int64, task, scenario string, trial int) int64 {
	sum := sha256.Sum256(appendFields(nil, runSeed, task, scenario, int64(trial)))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 11)
}

// appendFields appends integers as 8 bytes big-endian and strings with their length before them, so
// that no two lists of fields share an encoding.
func appendFields(b []byte, fields ...any) []byte {
	for _, f := range fields {
		switch f := f.(type) {
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(f)) //nolint:gosec // two's complement
		case string:
			b = binary.BigEndian.AppendUint64(b, uint64(len(f)))
			b = append(b, f...)
		}
	}
	return b
}
