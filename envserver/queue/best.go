package queue

import (
	"iter"
	"sync"
)

// Schedule is an order of work and what it is worth.
type Schedule struct {
	// Acts are those that fit into the shift, in order.
	Acts          []Act
	WeightedScore int64
}

// Best is the best schedule with perfect answers of those that this package knows, and the worth
// that scores are measured by. Among equal ones it is the first, in the order of orders, that takes
// the tickets one by one if any does.
func Best(cases [Size]Case) Schedule {
	var best int64 = -1
	var acts, chosen plan
	for order := range orders() {
		for _, fill := range []func(*plan, *[Size]Case, *[Size]int){(*plan).oneByOne, (*plan).labelsFirst} {
			fill(&acts, &cases, &order)
			if weighted := acts.weightedScore(&cases); weighted > best {
				best, chosen = weighted, acts
			}
		}
	}
	weighted, played := Play(cases, chosen.acts[:chosen.n])
	return Schedule{Acts: played, WeightedScore: weighted}
}

// Optima keeps what the best schedules are worth: there are 32,768 of them at most, and each takes a
// search. The zero value is ready, and safe for concurrent use.
type Optima struct {
	mu            sync.Mutex
	weightedScore map[[Size]Case]int64
}

// Of is the worth of the best schedule.
func (o *Optima) Of(cases [Size]Case) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	weighted, known := o.weightedScore[cases]
	if !known {
		if o.weightedScore == nil {
			o.weightedScore = map[[Size]Case]int64{}
		}
		weighted = Best(cases).WeightedScore
		o.weightedScore[cases] = weighted
	}
	return weighted
}

// OneByOne are the perfect acts that finish each ticket before the next is begun.
func OneByOne(cases [Size]Case, order [Size]int) []Act {
	var p plan
	p.oneByOne(&cases, &order)
	return p.acts[:p.n]
}

// LabelsFirst are the perfect acts that label all tickets before the first reply.
func LabelsFirst(cases [Size]Case, order [Size]int) []Act {
	var p plan
	p.labelsFirst(&cases, &order)
	return p.acts[:p.n]
}

// plan is a list of acts that needs no heap: the search makes 240 of them.
type plan struct {
	acts [4 * Size]Act
	n    int
}

func (p *plan) add(ticket int, kind Kind) {
	p.acts[p.n] = Act{ticket, kind, kind.Perfect()}
	p.n++
}

func (p *plan) label(ticket int) {
	p.add(ticket, Category)
	p.add(ticket, Priority)
}

func (p *plan) finish(ticket int, c Case) {
	p.add(ticket, Reply)
	if c.Escalate {
		p.add(ticket, Escalate)
	} else {
		p.add(ticket, Resolve)
	}
}

func (p *plan) oneByOne(cases *[Size]Case, order *[Size]int) {
	p.n = 0
	for _, i := range order {
		p.label(i)
		p.finish(i, cases[i])
	}
}

func (p *plan) labelsFirst(cases *[Size]Case, order *[Size]int) {
	p.n = 0
	for _, i := range order {
		p.label(i)
	}
	for _, i := range order {
		p.finish(i, cases[i])
	}
}

func (p *plan) weightedScore(cases *[Size]Case) int64 {
	s := newState()
	for _, a := range p.acts[:p.n] {
		if s.fits(a) {
			s.play(a)
		}
	}
	return s.weightedScore(cases)
}

// orders yields the 120 orders of five tickets, the arrivals' own first.
func orders() iter.Seq[[Size]int] {
	return func(yield func([Size]int) bool) {
		permute([Size]int{0, 1, 2, 3, 4}, 0, yield)
	}
}

// permute yields every order of the places from at on; it reports false when the caller has seen
// enough.
func permute(order [Size]int, at int, yield func([Size]int) bool) bool {
	if at == Size {
		return yield(order)
	}
	for i := at; i < Size; i++ {
		order[at], order[i] = order[i], order[at]
		if !permute(order, at+1, yield) {
			return false
		}
	}
	return true
}
