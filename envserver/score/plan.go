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
	"math/bits"
	"regexp"
	"slices"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// MaxSeed is the largest seed of a run or an episode: 2^53 - 1, which every JSON reader keeps
// exactly.
const MaxSeed = 1<<53 - 1

// MaxTrials bounds the trials of a task, and so the columns of a shard's ledger.
const MaxTrials = 1000

// namePattern matches task names and scenario ids. The bound on a shard's summary relies on it.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)

// Plan is a run's list of episodes in closed form. It is immutable once made, and runners read its
// JSON. A new field is left out of the JSON if it is zero, so that the plans of running runs keep
// their fingerprint.
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
	// Pressure plays the episodes of tasks that support it under simulated time.
	Pressure bool `json:"pressure,omitempty"`
	// ScenarioDigest, GraderVersion and Judge are the pool's. A runner refuses a server with
	// others.
	ScenarioDigest string `json:"scenarioDigest"`
	GraderVersion  string `json:"graderVersion"`
	Judge          string `json:"judge"`
	// LedgerKey is the public half, in base64, of the key with which the pool signs its ledgers.
	LedgerKey string `json:"ledgerKey"`
	// Tasks in the order of the run's spec.
	Tasks []PlanTask `json:"tasks"`
}

// PlanTask is a task, whose scenarios are each played Trials times.
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
	scenarios := len(p.listScenarios())
	p.Shards = min(max(parallelism, 1), scenarios)
	for p.Shards < scenarios && p.largestLedger() > maxPlannedLedgerBytes {
		p.Shards++
	}
	return p, nil
}

// ParsePlan reads the JSON of a plan that NewPlan has made. It refuses unknown fields, so that an
// old runner doesn't play a part of a newer plan.
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
	if scenarios := len(p.listScenarios()); p.Shards < 1 || p.Shards > scenarios {
		return Plan{}, fmt.Errorf("invalid plan: %d shards for %d scenarios", p.Shards, scenarios)
	}
	return p, nil
}

// Fingerprint is the fingerprint of the plan's JSON.
func (p Plan) Fingerprint() (string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("fingerprinting plan: %w", err)
	}
	return FingerprintOf(data), nil
}

// FingerprintOf is "sha256:" and the hex digest of a plan's JSON. It detects changes to a plan that
// is stored where others can write. A stored plan is compared by its bytes, because a newer release
// may encode it differently.
func FingerprintOf(plan []byte) string {
	sum := sha256.Sum256(plan)
	return bitstream.DigestPrefix + hex.EncodeToString(sum[:])
}

// InputsDigest is "sha256:" and the hex digest of the bytes of a plan and of an agent, with which a
// runner recognises the files that its Job was created for.
func InputsDigest(plan, agent []byte) string {
	hash := sha256.New()
	// Writing to a hash never fails. The length separates the two.
	_, _ = fmt.Fprintf(hash, "%d\n", len(plan))
	_, _ = hash.Write(plan)
	_, _ = hash.Write(agent)
	return bitstream.DigestPrefix + hex.EncodeToString(hash.Sum(nil))
}

func (p Plan) validate() error {
	var errs []error
	refuse := func(condition bool, format string, args ...any) {
		if condition {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(p.Run == "", "run is empty")
	refuse(p.Seed < 0 || p.Seed > MaxSeed, "seed %d is not within 0 and %d", p.Seed, int64(MaxSeed))
	refuse(p.PassScore < 0 || p.PassScore > One, "passScore %s is not within 0 and 1", FormatDecimal(p.PassScore))
	refuse(len(p.Tasks) == 0, "it has no tasks")
	seen := map[string]bool{}
	for _, t := range p.Tasks {
		refuse(seen[t.Name], "task %q appears twice", t.Name)
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

// listScenarios is the sorted union of the tasks' scenarios.
func (p Plan) listScenarios() []string {
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
// cluster of the statistics is in one shard.
func (p Plan) Shard(i int) iter.Seq[PlannedEpisode] {
	return p.outline(p.listScenarios()).shardEpisodes(i)
}

// PlanIndex finds the episodes of a plan by their index.
type PlanIndex struct {
	plan      Plan
	scenarios []string
	// first has the index of the first episode of each scenario, and then the number of all.
	first []int64
}

// NewIndex returns the index of the plan's episodes. A stored plan may be of anybody's making: the
// index of one that NewPlan hasn't made is of any episodes, or of none.
func (p Plan) NewIndex() *PlanIndex {
	x := &PlanIndex{plan: p, scenarios: p.listScenarios(), first: []int64{0}}
	for _, scenario := range x.scenarios {
		next := x.first[len(x.first)-1]
		for _, t := range p.Tasks {
			if _, selected := slices.BinarySearch(t.Scenarios, scenario); selected {
				next += int64(max(t.Trials, 0))
			}
		}
		x.first = append(x.first, next)
	}
	return x
}

// Episode is the planned episode with an index, and its shard. It reports false if there is none.
func (x *PlanIndex) Episode(index int64) (episode PlannedEpisode, shard int, planned bool) {
	if index < 0 || index >= x.first[len(x.first)-1] || x.plan.Shards < 1 {
		return PlannedEpisode{}, 0, false
	}
	at, exact := slices.BinarySearch(x.first, index)
	if !exact {
		at--
	}
	scenario, trial := x.scenarios[at], int(index-x.first[at])
	for _, t := range x.plan.Tasks {
		if _, selected := slices.BinarySearch(t.Scenarios, scenario); !selected {
			continue
		}
		if trial < t.Trials {
			return PlannedEpisode{Index: index, Task: t.Name, Scenario: scenario, Trial: trial,
				Seed:     EpisodeSeed(x.plan.Seed, t.Name, scenario, trial),
				Pressure: x.plan.Pressure}, at % x.plan.Shards, true
		}
		trial -= max(t.Trials, 0)
	}
	return PlannedEpisode{}, 0, false
}

// Accepts reports whether a receipt is of the planned episode with its index, graded as planned,
// and returns that episode. An error wraps ErrForeign or ErrGrader.
func (x *PlanIndex) Accepts(r Receipt) (PlannedEpisode, error) {
	planned, shard, found := x.Episode(r.Planned.Index)
	graded := planned
	graded.Trial = 0 // see Receipt
	if !found || r.Planned != graded {
		return PlannedEpisode{}, fmt.Errorf("%w: the plan has no such episode %d", ErrForeign, r.Planned.Index)
	}
	p := x.plan
	ledger := Ledger{Run: p.Run, Shard: shard, PassScore: p.PassScore, ScenarioDigest: p.ScenarioDigest,
		GraderVersion: p.GraderVersion, Judge: p.Judge}
	return planned, ledger.Accepts(r)
}

// EpisodeSeed derives an episode's seed: the first 53 bits of SHA-256 over the run's seed, the
// task, the scenario and the trial. Integers are encoded as 8 bytes big-endian, and strings are
// prefixed by their length. The seed doesn't depend on other episodes, so adding a scenario to a
// run leaves the other episodes unchanged.
func EpisodeSeed(runSeed int64, task, scenario string, trial int) int64 {
	sum := sha256.Sum256(appendFields(nil, runSeed, task, scenario, int64(trial)))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 11)
}

// appendFields appends integers as 8 bytes big-endian and strings prefixed by their length, so that
// different lists of fields have different encodings.
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

// PlanDigest is a fingerprint of a set of episodes that doesn't depend on their order: the sum
// modulo 2^256 of SHA-256 over each episode's index, task, scenario and seed, and the word pressure
// if it is played under pressure (an additive multiset hash: Bellare and Micciancio, "A new
// paradigm for collision-free hashing", 1997). The zero value is the empty set. The controller uses
// it to check that a ledger, which lists no episodes, contains exactly the planned ones.
type PlanDigest [32]byte

// Add adds an episode to the set. The trial is omitted: the grading server doesn't have it, and it
// follows from the index.
func (d *PlanDigest) Add(ep PlannedEpisode) { d.AddSet(ep.digest()) }

// AddSet adds the episodes of another, disjoint set.
func (d *PlanDigest) AddSet(o PlanDigest) {
	var carry uint64
	for i := len(d) - 8; i >= 0; i -= 8 {
		var sum uint64
		sum, carry = bits.Add64(binary.BigEndian.Uint64(d[i:]), binary.BigEndian.Uint64(o[i:]), carry)
		binary.BigEndian.PutUint64(d[i:], sum)
	}
}

// Equal reports whether two sets have the same fingerprint.
func (d PlanDigest) Equal(o PlanDigest) bool { return d == o }

func (ep PlannedEpisode) digest() PlanDigest {
	fields := appendFields(nil, ep.Index, ep.Task, ep.Scenario, ep.Seed)
	if ep.Pressure {
		fields = appendFields(fields, "pressure")
	}
	return sha256.Sum256(fields)
}
