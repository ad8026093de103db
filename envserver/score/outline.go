package score

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// Outline is a plan as a server keeps it. It has a bit for each task and scenario of a catalogue,
// from which the number, the seed and the shard of every episode follow. It is immutable.
type Outline struct {
	seed     int64
	shards   int
	pressure bool
	episodes int64
	// catalogue has the sorted ids of all scenarios that there are, which outlines share.
	catalogue []string
	tasks     []outlinedTask
}

// outlinedTask is a task with the positions in the catalogue of its scenarios.
type outlinedTask struct {
	name     string
	trials   int
	selected Bitset
}

// Outline returns the outline of a valid plan over a sorted catalogue of scenario ids. It fails if
// the catalogue lacks one of the plan's.
func (p Plan) Outline(catalogue []string) (*Outline, error) {
	for _, t := range p.Tasks {
		for _, id := range t.Scenarios {
			if _, known := slices.BinarySearch(catalogue, id); !known {
				return nil, fmt.Errorf("task %s of the plan has scenario %s, which is unknown here", t.Name, id)
			}
		}
	}
	return p.outline(catalogue), nil
}

// outline is Outline for a catalogue that has all scenarios of the plan.
func (p Plan) outline(catalogue []string) *Outline {
	o := &Outline{seed: p.Seed, shards: p.Shards, pressure: p.Pressure, episodes: p.Episodes(), catalogue: catalogue}
	for _, t := range p.Tasks {
		selected := NewBitset(int64(len(catalogue)))
		for _, id := range t.Scenarios {
			at, _ := slices.BinarySearch(catalogue, id)
			selected.Add(int64(at))
		}
		o.tasks = append(o.tasks, outlinedTask{t.Name, t.Trials, selected})
	}
	return o
}

// Episodes is the number of episodes of all shards.
func (o *Outline) Episodes() int64 { return o.episodes }

// Shards is the number of shards.
func (o *Outline) Shards() int { return o.shards }

// Bytes is about how much memory the outline takes, without the shared catalogue.
func (o *Outline) Bytes() int64 {
	return int64(len(o.tasks)) * int64((len(o.catalogue)+63)/64*8+64)
}

// shardEpisodes yields the episodes of shard i in the order of their index.
func (o *Outline) shardEpisodes(i int) iter.Seq[PlannedEpisode] {
	return func(yield func(PlannedEpisode) bool) {
		for ep := range o.shardCells(i) {
			for range o.tasks[ep.task].trials {
				planned := PlannedEpisode{Index: ep.first, Task: o.tasks[ep.task].name, Scenario: o.catalogue[ep.at],
					Trial: ep.trial, Pressure: o.pressure}
				planned.Seed = EpisodeSeed(o.seed, planned.Task, planned.Scenario, planned.Trial)
				if !yield(planned) {
					return
				}
				ep.first++
				ep.trial++
			}
		}
	}
}

// Indexes yields the indexes of shard i's episodes in ascending order.
func (o *Outline) Indexes(i int) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for c := range o.shardCells(i) {
			for range o.tasks[c.task].trials {
				if !yield(c.first) {
					return
				}
				c.first++
			}
		}
	}
}

// cell is the first episode of a task and a scenario, by their positions.
type cell struct {
	at, task, trial int
	first           int64
}

// shardCells yields the cells of shard i in the order of their index.
func (o *Outline) shardCells(i int) iter.Seq[cell] {
	return func(yield func(cell) bool) {
		var index int64
		rank := 0
		for at := range o.catalogue {
			before := index
			for task := range o.tasks {
				if !o.tasks[task].selected.Contains(int64(at)) {
					continue
				}
				if rank%o.shards == i && !yield(cell{at: at, task: task, first: index}) {
					return
				}
				index += int64(o.tasks[task].trials)
			}
			if index > before {
				rank++
			}
		}
	}
}

// Check returns an error unless an episode is the plan's of this index and shard. The trial of the
// episode is not looked at: it follows from the index.
func (o *Outline) Check(ep PlannedEpisode, shard int) error {
	at, known := slices.BinarySearch(o.catalogue, ep.Scenario)
	task := slices.IndexFunc(o.tasks, func(t outlinedTask) bool { return t.name == ep.Task })
	if !known || task < 0 || !o.tasks[task].selected.Contains(int64(at)) {
		return fmt.Errorf("the run's plan has no episodes of task %q, scenario %q", ep.Task, ep.Scenario)
	}
	var first int64
	for i, t := range o.tasks {
		first += t.selected.countBelow(at) * int64(t.trials)
		if i < task && t.selected.Contains(int64(at)) {
			first += int64(t.trials)
		}
	}
	trial := ep.Index - first
	if trial < 0 || trial >= int64(o.tasks[task].trials) {
		return fmt.Errorf("task %s, scenario %s are episodes %d to %d of the run's plan, not %d", ep.Task, ep.Scenario,
			first, first+int64(o.tasks[task].trials)-1, ep.Index)
	}
	if want := o.countBefore(at) % o.shards; shard != want {
		return fmt.Errorf("episode %d belongs to shard %d of the run's plan, not %d", ep.Index, want, shard)
	}
	if want := EpisodeSeed(o.seed, ep.Task, ep.Scenario, int(trial)); ep.Seed != want {
		return fmt.Errorf("episode %d has the seed %d in the run's plan, not %d", ep.Index, want, ep.Seed)
	}
	if ep.Pressure != o.pressure {
		return fmt.Errorf("episode %d has pressure %v in the run's plan, not %v", ep.Index, o.pressure, ep.Pressure)
	}
	return nil
}

// countBefore is the number of scenarios of the plan before a position of the catalogue.
func (o *Outline) countBefore(at int) int {
	n := 0
	for word := range at/64 + 1 {
		var any uint64
		for _, t := range o.tasks {
			any |= t.selected[word]
		}
		n += bits.OnesCount64(any & maskBelow(word, at))
	}
	return n
}

// Bitset is a set of integers from 0 up to a bound.
type Bitset []uint64

// NewBitset returns the empty set of integers below a bound.
func NewBitset(bound int64) Bitset { return make(Bitset, bound/64+1) }

// Add adds an integer.
func (b Bitset) Add(i int64) { b[i/64] |= 1 << (i % 64) }

// Contains reports whether an integer is in the set.
func (b Bitset) Contains(i int64) bool { return b[i/64]&(1<<(i%64)) != 0 }

// countBelow is the number of members less than at.
func (b Bitset) countBelow(at int) int64 {
	n := 0
	for word := range at/64 + 1 {
		n += bits.OnesCount64(b[word] & maskBelow(word, at))
	}
	return int64(n)
}

// maskBelow has the bits of a word whose members are less than at.
func maskBelow(word, at int) uint64 {
	if word < at/64 {
		return ^uint64(0)
	}
	return 1<<(at%64) - 1
}
