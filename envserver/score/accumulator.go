package score

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// MaxK is the largest k of the pass^k that an Accumulator keeps.
const MaxK = 8

// nano is the unit in which the pass^k of a (task, scenario) pair is added: rounding each to 1e-9
// keeps the sum an integer and costs no shown place.
const nano = 1_000_000_000

// Accumulator holds what the figures of a run need, in a size that depends on its tasks and
// categories only. Folding ledgers and merging accumulators is exact integer addition, so that the
// order of shards leaves no trace. The zero value is empty. It is not safe for concurrent use.
type Accumulator struct {
	// Plan is the fingerprint of the plan whose ledgers are folded, kept with the sums for whoever
	// resumes from the text; "" where nobody does. No sum depends on it.
	Plan string
	// Scored and Failed are the ledgers' counts.
	Scored, Failed int64
	// Errored, Retried, Tokens and Stored are what runners reported.
	Errored, Retried int64
	Tokens           Tokens
	// Stored counts the episodes in the result store, errored ones too.
	Stored int64
	// storeError is the error of the first shard whose episodes are not all stored.
	storeError   storeError
	durations    Durations
	classes      groups[classSums]
	overall      clusterSums
	tasks        []taskFold // ordered by name
	categories   groups[clusterSums]
	difficulties groups[clusterSums]
	languages    groups[clusterSums]
	// table is the fingerprint of the scenario table of the same shards.
	table PlanDigest
}

// classSums count what one class of errors cost: attempts that were made again, and episodes that
// were given up.
type classSums struct {
	retried, errored int64
}

func (c *classSums) merge(o *classSums) {
	c.retried += o.retried
	c.errored += o.errored
}

// storeError is what kept a shard's episodes out of the result store; text is "" for none.
type storeError struct {
	shard int64
	text  string
}

// merge keeps the error of the lower shard, whichever comes first.
func (e *storeError) merge(o storeError) {
	if o.text != "" && (e.text == "" || o.shard < e.shard || o.shard == e.shard && o.text < e.text) {
		*e = o
	}
}

// clusterSums are sums over clusters, a cluster being a scenario with n episodes that score s in
// all: what a ratio estimator and its variance need.
type clusterSums struct {
	clusters, episodes, passes int64
	score                      int64   // Σ s
	scoreSquared               big.Int // Σ s²
	scoreEpisodes              big.Int // Σ s·n
	episodesSquared            big.Int // Σ n²
}

type taskFold struct {
	TaskSums    // min, max, histogram and dimensions; the sums are those of clusters
	clusterSums clusterSums
	passHatK    [MaxK]passSum
}

// passSum adds C(c,k)/C(n,k) over the scenarios with n >= k episodes in the task, c of which
// passed.
type passSum struct {
	scenarios int64
	nano      int64
}

// Fold adds the ledger of one shard. The plan puts all episodes of a scenario into one shard, so a
// scenario must not be in two of the ledgers folded.
func (a *Accumulator) Fold(l *Ledger) {
	a.Scored += l.Scored
	a.Failed += l.Failed
	for i := range l.Tasks {
		a.task(l.Tasks[i].Name).TaskSums.merge(l.Tasks[i])
	}
	for i := range l.Scenarios {
		a.foldScenario(&l.Scenarios[i])
	}
	a.table.AddSet(tableDigest(l))
}

// FoldSummary adds the ledger of one shard and the figures that its runner reported beside it.
func (a *Accumulator) FoldSummary(l *Ledger, s Summary) {
	a.Fold(l)
	a.Errored += s.ErroredEpisodes()
	a.Retried += s.Retried
	a.Tokens.Add(s.Tokens)
	a.Stored += s.Stored.Episodes
	a.storeError.merge(storeError{int64(l.Shard), s.Stored.Error})
	a.durations.Merge(s.Durations)
	for _, c := range s.Errored {
		a.classes.at(c.Class).errored += c.Episodes.Len()
	}
	for class, attempts := range s.RetriedBy {
		a.classes.at(class).retried += attempts
	}
	a.classes.limit(maxClasses, (*classSums).merge)
}

func (a *Accumulator) foldScenario(s *ScenarioSums) {
	var all ScenarioTaskSums
	for _, row := range s.Tasks {
		all.Episodes += row.Episodes
		all.Passes += row.Passes
		all.Sum += row.Sum
		t := a.task(row.Task)
		t.clusterSums.addCluster(row)
		for k := range t.passHatK {
			t.passHatK[k].add(row, int64(k+1))
		}
	}
	a.overall.addCluster(all)
	for i, by := range a.attributes() {
		by.sums.at(*attributes[i](s)).addCluster(all)
		by.sums.limit(by.most, (*clusterSums).merge)
	}
}

// grouping are the sums by one of a scenario's attributes.
type grouping struct {
	sums *groups[clusterSums]
	most int
}

// attributes are the groupings in the order of the ledger's attributes.
func (a *Accumulator) attributes() [3]grouping {
	return [3]grouping{{&a.categories, maxCategories}, {&a.difficulties, maxDifficulties}, {&a.languages, maxLanguages}}
}

func (a *Accumulator) task(name string) *taskFold {
	at, found := slices.BinarySearchFunc(a.tasks, name,
		func(t taskFold, name string) int { return cmp.Compare(t.Name, name) })
	if !found {
		a.tasks = slices.Insert(a.tasks, at, taskFold{TaskSums: TaskSums{Name: name, Min: One}})
	}
	return &a.tasks[at]
}

func (c *clusterSums) addCluster(row ScenarioTaskSums) {
	c.clusters++
	c.episodes += row.Episodes
	c.passes += row.Passes
	c.score += row.Sum
	s, n := big.NewInt(row.Sum), big.NewInt(row.Episodes)
	addProduct(&c.scoreSquared, s, s)
	addProduct(&c.scoreEpisodes, s, n)
	addProduct(&c.episodesSquared, n, n)
}

func addProduct(sum, x, y *big.Int) { sum.Add(sum, new(big.Int).Mul(x, y)) }

func (c *clusterSums) merge(o *clusterSums) {
	c.clusters += o.clusters
	c.episodes += o.episodes
	c.passes += o.passes
	c.score += o.score
	c.scoreSquared.Add(&c.scoreSquared, &o.scoreSquared)
	c.scoreEpisodes.Add(&c.scoreEpisodes, &o.scoreEpisodes)
	c.episodesSquared.Add(&c.episodesSquared, &o.episodesSquared)
}

func (p *passSum) add(row ScenarioTaskSums, k int64) {
	if row.Episodes < k {
		return
	}
	p.scenarios++
	passing, all := new(big.Int).Binomial(row.Passes, k), new(big.Int).Binomial(row.Episodes, k)
	passing.Mul(passing, big.NewInt(nano))
	p.nano += roundedQuotient(passing, all)
}

// roundedQuotient is x/y, rounded half up, for x >= 0 and y > 0.
func roundedQuotient(x, y *big.Int) int64 {
	twice := new(big.Int).Lsh(x, 1)
	twice.Add(twice, y)
	return twice.Quo(twice, new(big.Int).Lsh(y, 1)).Int64()
}

// Merge adds another accumulator, of other shards: partial sums come to the same figures in
// whatever order and parts they are added.
func (a *Accumulator) Merge(b *Accumulator) {
	a.Scored += b.Scored
	a.Failed += b.Failed
	a.Errored += b.Errored
	a.Retried += b.Retried
	a.Tokens.Add(b.Tokens)
	a.Stored += b.Stored
	a.storeError.merge(b.storeError)
	a.durations.Merge(b.durations)
	a.classes.merge(b.classes, maxClasses, (*classSums).merge)
	a.overall.merge(&b.overall)
	for i := range b.tasks {
		a.task(b.tasks[i].Name).merge(&b.tasks[i])
	}
	from := b.attributes()
	for i, by := range a.attributes() {
		by.sums.merge(*from[i].sums, by.most, (*clusterSums).merge)
	}
	a.table.AddSet(b.table)
}

func (t *taskFold) merge(o *taskFold) {
	t.TaskSums.merge(o.TaskSums)
	t.clusterSums.merge(&o.clusterSums)
	for k := range t.passHatK {
		t.passHatK[k].scenarios += o.passHatK[k].scenarios
		t.passHatK[k].nano += o.passHatK[k].nano
	}
}

const accumulatorVersion = 2

// MarshalText writes the accumulator in base64 (a few kilobytes), "" when it is empty. Equal
// accumulators have equal texts.
func (a *Accumulator) MarshalText() ([]byte, error) {
	if a.empty() {
		return []byte{}, nil
	}
	w := &bitWriter{}
	w.bits(accumulatorVersion, 8)
	w.text(a.Plan)
	for _, count := range a.counts() {
		w.number(*count)
	}
	w.number(a.storeError.shard)
	w.text(a.storeError.text)
	w.column(a.durations.bins[:])
	w.number(int64(len(a.classes)))
	for i := range a.classes {
		w.text(a.classes[i].name)
		w.number(a.classes[i].sums.retried)
		w.number(a.classes[i].sums.errored)
	}
	a.overall.write(w)
	w.number(int64(len(a.tasks)))
	for i := range a.tasks {
		a.tasks[i].write(w)
	}
	for _, by := range a.attributes() {
		w.number(int64(len(*by.sums)))
		for i := range *by.sums {
			w.text((*by.sums)[i].name)
			(*by.sums)[i].sums.write(w)
		}
	}
	w.raw(a.table[:])
	return []byte(base64.StdEncoding.EncodeToString(w.bytes)), nil
}

func (a *Accumulator) empty() bool {
	for _, count := range a.counts() {
		if *count != 0 {
			return false
		}
	}
	return a.Plan == "" && a.storeError.text == "" && a.durations == Durations{} && len(a.classes) == 0 &&
		a.overall.clusters == 0
}

func (a *Accumulator) counts() []*int64 {
	return []*int64{&a.Scored, &a.Failed, &a.Errored, &a.Retried, &a.Tokens.Prompt, &a.Tokens.Completion, &a.Stored}
}

func (c *clusterSums) write(w *bitWriter) {
	for _, v := range []int64{c.clusters, c.episodes, c.passes, c.score} {
		w.number(v)
	}
	for _, v := range []*big.Int{&c.scoreSquared, &c.scoreEpisodes, &c.episodesSquared} {
		w.natural(v)
	}
}

func (t *taskFold) write(w *bitWriter) {
	w.text(t.Name)
	w.number(t.Min)
	w.number(t.Max)
	w.column(t.Hist[:])
	w.number(int64(len(t.Dimensions)))
	for _, d := range t.Dimensions {
		w.text(d.Name)
		w.signed(d.Earned)
		w.number(d.Offered)
	}
	t.clusterSums.write(w)
	for _, p := range t.passHatK {
		w.number(p.scenarios)
		w.number(p.nano)
	}
}

// UnmarshalText reads what MarshalText wrote. The text comes from a status that others may edit, so
// it must be a well-formed accumulator, not only decodable.
func (a *Accumulator) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil {
		return fmt.Errorf("decoding accumulator: %w", err)
	}
	got := Accumulator{}
	if len(raw) > 0 {
		got, err = readAccumulator(raw)
	}
	if err != nil {
		return fmt.Errorf("decoding accumulator: %w", err)
	}
	if again, err := got.MarshalText(); err != nil || !bytes.Equal(again, text) {
		return errors.New("decoding accumulator: not its shortest encoding")
	}
	*a = got
	return nil
}

func readAccumulator(raw []byte) (Accumulator, error) {
	r := &bitReader{bytes: raw}
	if version := r.bits(8); version != accumulatorVersion {
		return Accumulator{}, fmt.Errorf("version %d is not %d: it was written by another release", version,
			accumulatorVersion)
	}
	a := Accumulator{Plan: r.text()}
	for _, count := range a.counts() {
		*count = r.number()
	}
	a.storeError.shard, a.storeError.text = r.number(), r.text()
	copy(a.durations.bins[:], r.column(durationBins))
	a.classes = make(groups[classSums], r.count(minTextBits))
	for i := range a.classes {
		a.classes[i].name = r.text()
		a.classes[i].sums = classSums{retried: r.number(), errored: r.number()}
	}
	a.overall.read(r)
	a.tasks = make([]taskFold, r.count(minTextBits))
	for i := range a.tasks {
		a.tasks[i].read(r)
	}
	for _, by := range a.attributes() {
		*by.sums = make(groups[clusterSums], r.count(minTextBits))
		for i := range *by.sums {
			(*by.sums)[i].name = r.text()
			(*by.sums)[i].sums.read(r)
		}
	}
	copy(a.table[:], r.raw(len(a.table)))
	return a, errors.Join(r.end(), a.validate())
}

func (c *clusterSums) read(r *bitReader) {
	for _, v := range []*int64{&c.clusters, &c.episodes, &c.passes, &c.score} {
		*v = r.number()
	}
	for _, v := range []*big.Int{&c.scoreSquared, &c.scoreEpisodes, &c.episodesSquared} {
		v.Set(r.natural())
	}
}

func (t *taskFold) read(r *bitReader) {
	t.Name, t.Min, t.Max = r.text(), r.number(), r.number()
	copy(t.Hist[:], r.column(Bins))
	for range r.count(minTextBits) {
		t.Dimensions = append(t.Dimensions, DimensionSums{Name: r.text(), Earned: r.signed(), Offered: r.number()})
	}
	t.clusterSums.read(r)
	t.Episodes, t.Passes, t.Sum = t.clusterSums.episodes, t.clusterSums.passes, t.clusterSums.score
	for k := range t.passHatK {
		t.passHatK[k] = passSum{scenarios: r.number(), nano: r.number()}
	}
}

// maxTotal bounds what a run adds up of its runners' words: more than all of its shards can report,
// and nothing that overflows.
const maxTotal = 1 << 62

// validate refuses sums with which the figures would overflow or divide by nothing.
func (a *Accumulator) validate() error {
	for _, count := range a.counts() {
		if *count > maxTotal {
			return fmt.Errorf("a count of %d", *count)
		}
	}
	episodes := a.Scored + a.Failed
	if a.Scored > maxCount || a.Failed > maxCount {
		return fmt.Errorf("a count of %d episodes", episodes)
	}
	if err := a.overall.validate(episodes); err != nil {
		return err
	}
	for i := range a.tasks {
		t := &a.tasks[i]
		if i > 0 && a.tasks[i-1].Name >= t.Name {
			return fmt.Errorf("task %q is out of order", t.Name)
		}
		if err := errors.Join(t.validate(), t.clusterSums.validate(episodes)); err != nil {
			return err
		}
	}
	if err := validateGroups(a.classes, maxClasses, (*classSums).validate); err != nil {
		return err
	}
	for _, by := range a.attributes() {
		if err := validateGroups(*by.sums, by.most,
			func(c *clusterSums) error { return c.validate(episodes) }); err != nil {
			return err
		}
	}
	return nil
}

func validateGroups[T any](g groups[T], most int, validate func(*T) error) error {
	if len(g) > most {
		return fmt.Errorf("%d groups are more than %d", len(g), most)
	}
	for i := range g {
		if i > 0 && g[i-1].name >= g[i].name {
			return fmt.Errorf("group %q is out of order", g[i].name)
		}
		if err := validate(&g[i].sums); err != nil {
			return err
		}
	}
	return nil
}

func (c *classSums) validate() error {
	if c.retried > maxTotal || c.errored > maxTotal {
		return errors.New("impossible counts of errors")
	}
	return nil
}

func (c *clusterSums) validate(episodes int64) error {
	if c.clusters > c.episodes || c.episodes > episodes || c.passes > c.episodes || c.score > c.episodes*One {
		return errors.New("impossible sums")
	}
	return nil
}
