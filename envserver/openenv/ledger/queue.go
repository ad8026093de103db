package ledger

import (
	"cmp"
	"container/heap"
	"slices"
)

// usefulness orders the ledgers of a run, the least useful first. A ledger that was fetched as it
// is has been counted, or the runner will play the shard again. A shard without an ended episode
// loses nothing with its ledger, which is made again when one ends, but its runner may be about to
// fetch it.
type usefulness int

const (
	fetched usefulness = iota
	empty
	abandoned
	needed
)

// rankLedger says how useful a ledger is after it was used or has changed.
func (s *Ledgers) rankLedger(l *ShardLedger) {
	switch {
	case l.sums.Scored+l.sums.Failed == 0:
		l.use = empty
	case !l.unread:
		l.use = fetched
	default:
		l.use = needed
	}
	s.reorderLedger(l)
}

// reorderLedger gives a ledger, its run and their share their places in the order in which ledgers
// are deleted (see makeRoom), after one of them has changed.
func (s *Ledgers) reorderLedger(l *ShardLedger) {
	l.run.ledgers.putMember(l, s.byKey[l.key] == l)
	of := l.run.share
	of.runs.putMember(l.run, len(l.run.ledgers) > 0)
	s.order.putMember(of, len(of.runs) > 0)
}

func (l *ShardLedger) at() *int { return &l.place }
func (r *run) at() *int         { return &r.place }
func (h *share) at() *int       { return &h.place }

func (l *ShardLedger) compare(o *ShardLedger) int {
	return cmp.Or(cmp.Compare(l.use, o.use), l.touched.Compare(o.touched))
}

func (r *run) compare(o *run) int {
	return cmp.Or(r.needsAll()-o.needsAll(), cmp.Compare(len(o.ledgers), len(r.ledgers)),
		r.ledgers[0].compare(o.ledgers[0]))
}

func (h *share) compare(o *share) int {
	return cmp.Or(h.runs[0].needsAll()-o.runs[0].needsAll(), cmp.Compare(o.ledgers, h.ledgers),
		h.runs[0].compare(o.runs[0]))
}

// needsAll is 1 for a run whose ledgers are all needed, which loses one last, and 0 for others.
func (r *run) needsAll() int { return int(r.ledgers[0].use / needed) }

// queue is a heap whose members know their places.
type queue[T member[T]] []T

type member[T any] interface {
	comparable
	compare(other T) int
	at() *int
}

// putMember gives a member its place after a change, or removes it.
func (q *queue[T]) putMember(m T, belongs bool) {
	at := *m.at()
	switch in := at < len(*q) && (*q)[at] == m; {
	case in && belongs:
		heap.Fix(q, at)
	case in:
		heap.Remove(q, at)
	case belongs:
		heap.Push(q, m)
	}
}

// Len implements heap.Interface.
func (q queue[T]) Len() int { return len(q) }

// Less implements heap.Interface.
func (q queue[T]) Less(i, j int) bool { return q[i].compare(q[j]) < 0 }

// Swap implements heap.Interface.
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	*q[i].at(), *q[j].at() = i, j
}

// Push implements heap.Interface.
func (q *queue[T]) Push(m any) {
	added := m.(T) //nolint:forcetypeassert // put's
	*added.at() = len(*q)
	*q = append(*q, added)
}

// Pop implements heap.Interface.
func (q *queue[T]) Pop() any {
	last := (*q)[len(*q)-1]
	*q = slices.Delete(*q, len(*q)-1, len(*q))
	return last
}
