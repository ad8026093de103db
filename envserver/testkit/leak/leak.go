// Package leak tests that nothing an agent is served before the first graded action tells what is
// right: a learner guesses what is right from one sight, and may not guess better than without it.
package leak

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
)

// Instance is what an agent can see of an episode before the first graded action or by one probing
// action, and what is right.
type Instance struct {
	// Seen are the sights, Right the answers to each question, by name. All instances have the same
	// questions; a sight that one lacks is "".
	Seen, Right map[string]string
	// Known is what the agent knows anyway, such as the task and the family of the case.
	Known    string
	Scenario string
	Seed     int64
}

const (
	// maxGain is how far a learner may beat both the majority guess and what chance explains.
	maxGain = .02
	// minSample is the number of examples of a value from which the learner uses it.
	minSample = 3
	// divisions is how often scenarios are divided into halves.
	divisions = 4
)

// Finding is a sight that tells the answer to a question. The figures are shares of right guesses:
// with the sight, without it, and by how much the best of all sights helped by chance.
type Finding struct {
	Sight, Question         string
	Informed, Plain, Chance float64
}

func (f Finding) String() string {
	return fmt.Sprintf("%s tells %s: %.3f are guessed, without it %.3f (by chance %+.3f)", f.Sight, f.Question,
		f.Informed, f.Plain, f.Chance)
}

// Permission lets sights tell what is right.
type Permission struct {
	// Sights matches their names.
	Sights string
	// Questions are those that they may answer, nil for all.
	Questions []string
	Why       string
}

func (p Permission) covers(sight, question string) bool {
	return (p.Questions == nil || slices.Contains(p.Questions, question)) &&
		regexp.MustCompile(p.Sights).MatchString(sight)
}

// Comparison is what a learner is trained and tested on.
type Comparison struct {
	// group is the part of an instance within which the learner compares.
	group func(*Instance) string
	// split returns the indices of instances to train on and to test on.
	split func(instances []Instance) []trial
	// shuffle returns which instance's sights each instance gets, so that they tell nothing more.
	shuffle func(random *rand.Rand, groups column, instances []Instance) []int
}

type trial struct{ train, test []int }

// OfScenario compares instances of one scenario. The learner knows the instances with even seeds.
func OfScenario() Comparison {
	return Comparison{func(i *Instance) string { return i.Scenario }, bySeed, shuffleInstances}
}

// OfKnown compares instances that look the same, and the learner knows those with even
// seeds.
func OfKnown() Comparison {
	return Comparison{func(i *Instance) string { return i.Known }, bySeed, shuffleInstances}
}

// OfOtherScenarios compares instances that look the same. The learner knows one half of the
// scenarios and guesses the other half.
func OfOtherScenarios() Comparison {
	return Comparison{func(i *Instance) string { return i.Known }, byScenario, shuffleScenarios}
}

// Find returns the sights that tell what is right without permission, ordered by question and
// sight.
//
// With few scenarios, some sight out of many goes with what is right by chance. A sight is
// therefore only found if it helps by maxGain more than every sight does in each of so many rounds
// in which the instances, or whole scenarios, get the sights of others. The rounds have a fixed
// seed.
func Find(instances []Instance, by Comparison, rounds int, permissions ...Permission) []Finding {
	groups := columnOf(instances, func(i *Instance) string { return by.group(i) })
	trials := by.split(instances)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test that repeats
	shuffled := make([][]int, rounds)
	for k := range shuffled {
		shuffled[k] = by.shuffle(random, groups, instances)
	}
	sights := sightsOf(instances, by)
	var found []Finding
	for _, question := range slices.Sorted(maps.Keys(instances[0].Right)) {
		right := columnOf(instances, func(i *Instance) string { return i.Right[question] })
		trials := filterTrials(trials, right, groups)
		if len(trials) == 0 {
			continue
		}
		plain, chance := scoreGuesses(trials, right, groups, groups), 0.
		for _, order := range shuffled {
			for _, s := range sights {
				chance = max(chance, scoreGuesses(trials, right, groups, s.column.ordered(order))-plain)
			}
		}
		for _, s := range sights {
			informed := scoreGuesses(trials, right, groups, s.column)
			if informed-plain <= chance+maxGain {
				continue
			}
			for _, name := range s.names {
				if !slices.ContainsFunc(permissions, func(p Permission) bool { return p.covers(name, question) }) {
					found = append(found, Finding{name, question, informed, plain, chance})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Question, b.Question), cmp.Compare(a.Sight, b.Sight))
	})
	return found
}

// filterTrials limits the trials to instances of groups in which the right answer differs: the
// others hide what a sight tells.
func filterTrials(trials []trial, right, groups column) []trial {
	first, differs := map[int]int{}, map[int]bool{}
	for k, group := range groups.values {
		if answer, ok := first[group]; !ok {
			first[group] = right.values[k]
		} else if answer != right.values[k] {
			differs[group] = true
		}
	}
	var out []trial
	for _, t := range trials {
		t.test = slices.DeleteFunc(slices.Clone(t.test), func(k int) bool { return !differs[groups.values[k]] })
		if len(t.test) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// sight is a value that an agent sees. Sights that tell the same have one column.
type sight struct {
	column column
	names  []string
}

// sightsOf returns the sights that aren't the same for all instances of each group.
func sightsOf(instances []Instance, by Comparison) []*sight {
	all := map[string]bool{}
	for _, i := range instances {
		for name := range i.Seen {
			all[name] = true
		}
	}
	var out []*sight
	same := map[string]*sight{}
	groups := columnOf(instances, func(i *Instance) string { return by.group(i) })
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := columnOf(instances, func(i *Instance) string { return by.group(i) + "\x00" + i.Seen[name] })
		key := fmt.Sprint(c.values)
		if same[key] == nil {
			same[key] = &sight{column: c}
			if c.n > groups.n {
				out = append(out, same[key])
			}
		}
		same[key].names = append(same[key].names, name)
	}
	return out
}

// column is a value of each instance, as a number below n. The numbers have the order of the texts.
type column struct {
	values []int
	n      int
}

func columnOf(instances []Instance, text func(*Instance) string) column {
	texts := make([]string, len(instances))
	for k := range instances {
		texts[k] = text(&instances[k])
	}
	different := slices.Compact(slices.Sorted(slices.Values(texts)))
	c := column{make([]int, len(texts)), len(different)}
	for k, text := range texts {
		c.values[k], _ = slices.BinarySearch(different, text)
	}
	return c
}

// ordered returns the column whose k-th value belongs to the instance order[k].
func (c column) ordered(order []int) column {
	out := column{make([]int, len(order)), c.n}
	for k, from := range order {
		out.values[k] = c.values[from]
	}
	return out
}

// scoreGuesses returns the share of right guesses. The learner guesses the majority of the examples
// with the same value of the sight, of the group if they are few, and of all if these are few.
func scoreGuesses(trials []trial, right, groups, sight column) float64 {
	hits, sum := 0, 0
	all := column{make([]int, len(right.values)), 1}
	for _, t := range trials {
		levels := []column{sight, groups, all}
		best := make([][]int, len(levels))
		for k, level := range levels {
			best[k] = findMajorities(t.train, right, level)
		}
		for _, i := range t.test {
			for k, level := range levels {
				if label := best[k][level.values[i]]; label >= 0 {
					if label == right.values[i] {
						hits++
					}
					break
				}
			}
		}
		sum += len(t.test)
	}
	return float64(hits) / float64(sum)
}

// findMajorities returns the most frequent answer by value, the first of equal ones, or -1 for
// values with few examples.
func findMajorities(train []int, right, level column) []int {
	votes, sums := make([]int, level.n*right.n), make([]int, level.n)
	for _, i := range train {
		votes[level.values[i]*right.n+right.values[i]]++
		sums[level.values[i]]++
	}
	best := make([]int, level.n)
	for value := range best {
		if best[value] = -1; sums[value] >= minSample {
			of := votes[value*right.n : (value+1)*right.n]
			best[value] = slices.Index(of, slices.Max(of))
		}
	}
	return best
}

func bySeed(instances []Instance) []trial {
	var t trial
	for k, i := range instances {
		if i.Seed%2 == 0 {
			t.train = append(t.train, k)
		} else {
			t.test = append(t.test, k)
		}
	}
	return []trial{t}
}

// byScenario divides the scenarios of each group several times. Each half is learned from once.
func byScenario(instances []Instance) []trial {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test that repeats
	var trials []trial
	for range divisions {
		first := map[string]bool{}
		for _, names := range scenariosByGroup(instances) {
			for k, place := range random.Perm(len(names)) {
				first[names[place]] = k%2 == 0
			}
		}
		var t trial
		for k, i := range instances {
			if first[i.Scenario] {
				t.train = append(t.train, k)
			} else {
				t.test = append(t.test, k)
			}
		}
		trials = append(trials, t, trial{t.test, t.train})
	}
	return trials
}

// scenariosByGroup lists the scenarios that look the same, in a fixed order.
func scenariosByGroup(instances []Instance) [][]string {
	groups := map[string]map[string]bool{}
	for _, i := range instances {
		if groups[i.Known] == nil {
			groups[i.Known] = map[string]bool{}
		}
		groups[i.Known][i.Scenario] = true
	}
	var out [][]string
	for _, known := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, slices.Sorted(maps.Keys(groups[known])))
	}
	return out
}

// shuffleInstances exchanges the sights of instances of a group.
func shuffleInstances(random *rand.Rand, groups column, instances []Instance) []int {
	members := make([][]int, groups.n)
	for k, group := range groups.values {
		members[group] = append(members[group], k)
	}
	order := make([]int, len(instances))
	for _, of := range members {
		for k, place := range random.Perm(len(of)) {
			order[of[k]] = of[place]
		}
	}
	return order
}

// shuffleScenarios exchanges the sights of whole scenarios of a group, because the instances of a
// scenario are much alike.
func shuffleScenarios(random *rand.Rand, _ column, instances []Instance) []int {
	members := map[string][]int{}
	for k, i := range instances {
		members[i.Scenario] = append(members[i.Scenario], k)
	}
	order := make([]int, len(instances))
	for _, names := range scenariosByGroup(instances) {
		for k, place := range random.Perm(len(names)) {
			from := members[names[place]]
			for n, to := range members[names[k]] {
				order[to] = from[n%len(from)]
			}
		}
	}
	return order
}
