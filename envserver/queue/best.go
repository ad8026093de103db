package queue

import (
	"iter"
	"slices"
	"sync"
)

// Schedule is an order of work and its weighted score.
type Schedule struct {
	// Acts are the acts that fit into the shift, in order.
	Acts          []Act
	WeightedScore int64
}

// FindBestSchedule returns the best of the 240 schedules with perfect answers, or the first of
// several equal ones. Its weighted score is the optimum of the task's scores.
func FindBestSchedule(cases [Size]Case) Schedule {
	best := Schedule{WeightedScore: -1}
	acts := make([]Act, 0, 4*Size)
	for order := range iterateOrders() {
		for _, arrange := range []arrangement{oneByOne, labelsFirst} {
			if weighted, played := playInPlace(&cases, arrange(acts, &cases, &order)); weighted > best.WeightedScore {
				best = Schedule{Acts: slices.Clone(played), WeightedScore: weighted}
			}
		}
	}
	return best
}

// Optima caches the weighted scores of the best schedules, at most 32,768 of them, because each
// requires a search. The zero value is ready, and safe for concurrent use.
type Optima struct{ byCases sync.Map }

// Of returns the weighted score of the best schedule.
func (o *Optima) Of(cases [Size]Case) int64 {
	if known, ok := o.byCases.Load(cases); ok {
		return known.(int64)
	}
	weighted := FindBestSchedule(cases).WeightedScore
	o.byCases.Store(cases, weighted)
	return weighted
}

// OneByOne returns the perfect acts that finish each ticket before the next is begun.
func OneByOne(cases [Size]Case, order [Size]int) []Act { return oneByOne(nil, &cases, &order) }

// LabelsFirst returns the perfect acts that label all tickets before the first reply.
func LabelsFirst(cases [Size]Case, order [Size]int) []Act { return labelsFirst(nil, &cases, &order) }

// arrangement appends a schedule's acts, so that the search reuses one list.
type arrangement func(acts []Act, cases *[Size]Case, order *[Size]int) []Act

func oneByOne(acts []Act, cases *[Size]Case, order *[Size]int) []Act {
	for _, i := range order {
		acts = appendEnding(appendLabels(acts, i), i, cases[i])
	}
	return acts
}

func labelsFirst(acts []Act, cases *[Size]Case, order *[Size]int) []Act {
	for _, i := range order {
		acts = appendLabels(acts, i)
	}
	for _, i := range order {
		acts = appendEnding(acts, i, cases[i])
	}
	return acts
}

func appendLabels(acts []Act, ticket int) []Act {
	return append(acts, newPerfectAct(ticket, Category), newPerfectAct(ticket, Priority))
}

func appendEnding(acts []Act, ticket int, c Case) []Act {
	end := Resolve
	if c.Escalate {
		end = Escalate
	}
	return append(acts, newPerfectAct(ticket, Reply), newPerfectAct(ticket, end))
}

func newPerfectAct(ticket int, kind Kind) Act { return Act{ticket, kind, kind.Perfect()} }

// iterateOrders yields the 120 orders of five tickets, starting with the order of their arrival.
// Best returns the first of equal schedules, so this sequence must not change.
func iterateOrders() iter.Seq[[Size]int] {
	return func(yield func([Size]int) bool) { permuteOrder([Size]int{0, 1, 2, 3, 4}, 0, yield) }
}

// permuteOrder yields every order of the places from at on. It returns false if yield did.
func permuteOrder(order [Size]int, at int, yield func([Size]int) bool) bool {
	if at == Size {
		return yield(order)
	}
	for i := at; i < Size; i++ {
		order[at], order[i] = order[i], order[at]
		if !permuteOrder(order, at+1, yield) {
			return false
		}
	}
	return true
}
