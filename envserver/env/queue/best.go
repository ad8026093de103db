package queue

import (
	"cmp"
	"iter"
	"slices"
	"sync"
)

// Schedule is an order of work and its weighted score.
type Schedule struct {
	// Acts are the acts that fit into the shift, in order.
	Acts []Act
	Optimum
}

// Optimum is what the best schedules of a shift earn and leave.
type Optimum struct {
	WeightedScore int64
	// Left is the sum of the weights of the urgent and high tickets that aren't both answered and
	// closed, the most that one of the best schedules or one by urgency leaves.
	Left int64
}

// FindBestSchedule returns the best of the 240 schedules with perfect answers, or the first of
// several equal ones. Its weighted score is the optimum of the task's scores.
func FindBestSchedule(cases [Size]Case) Schedule {
	best, byUrgency := Schedule{Optimum: Optimum{WeightedScore: -1}}, int64(0)
	acts := make([]Act, 0, 4*Size)
	for order := range iterateOrders() {
		urgentFirst := slices.IsSortedFunc(order[:], func(a, b int) int {
			return cmp.Compare(PriorityWeight(cases[b].Priority), PriorityWeight(cases[a].Priority))
		})
		for i, arrange := range []arrangement{oneByOne, labelsFirst} {
			weighted, played := playInPlace(&cases, arrange(acts, &cases, &order))
			if urgentFirst && i == 0 {
				byUrgency = max(byUrgency, weighLeft(&cases, played))
			}
			switch {
			case weighted > best.WeightedScore:
				best = Schedule{slices.Clone(played), Optimum{weighted, weighLeft(&cases, played)}}
			case weighted == best.WeightedScore:
				best.Left = max(best.Left, weighLeft(&cases, played))
			}
		}
	}
	best.Left = max(best.Left, byUrgency)
	return best
}

// weighLeft returns Optimum.Left of a schedule.
func weighLeft(cases *[Size]Case, played []Act) (left int64) {
	var ended [Size]int
	for _, a := range played {
		if a.Kind != Category && a.Kind != Priority {
			ended[a.Ticket]++
		}
	}
	for i, c := range cases {
		if IsPressing(c.Priority) && ended[i] < 2 {
			left += PriorityWeight(c.Priority)
		}
	}
	return left
}

// Optima caches the optima of shifts, at most 32,768 of them, because each requires a search. The
// zero value is ready, and safe for concurrent use.
type Optima struct{ byCases sync.Map }

// Of returns the optimum of a shift.
func (o *Optima) Of(cases [Size]Case) Optimum {
	if known, ok := o.byCases.Load(cases); ok {
		return known.(Optimum)
	}
	found := FindBestSchedule(cases).Optimum
	o.byCases.Store(cases, found)
	return found
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
