package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// AddReceipts counts the receipts' episodes, each once, in the ledger of the tag's shard. It makes
// a ledger only if there are receipts and all belong into it, or if opens is true. The tag's
// credential has been admitted; plan is the fingerprint that this returned.
func (s *Ledgers) AddReceipts(tag protocol.RunTag, plan string, opens bool,
	receipts []score.Receipt) (protocol.ReceiptsAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[tag.Run]
	if plan != "" && (r == nil || r.fingerprint != plan) {
		return protocol.ReceiptsAnswer{}, ErrNoPlan
	}
	if err := r.checkReceipts(tag.Shard, receipts); err != nil {
		return protocol.ReceiptsAnswer{}, err
	}
	if !r.playsShard(tag.Shard) {
		return protocol.ReceiptsAnswer{}, ErrNoPlan
	}
	key := Key{tag.Run, tag.Shard}
	l := s.byKey[key]
	if l == nil && len(receipts) == 0 && !opens {
		return protocol.ReceiptsAnswer{}, nil
	}
	if !opens && len(receipts) > 0 {
		tag.PassScore = receipts[0].PassScore
	}
	fresh := l == nil
	if fresh {
		l = s.newLedger(tag, r)
	}
	if opens || len(receipts) > 0 {
		if err := l.acceptTag(tag); err != nil {
			return protocol.ReceiptsAnswer{}, err
		}
	}
	if fresh && !s.makeRoom(l.run) {
		return protocol.ReceiptsAnswer{}, ErrFull
	}
	answer, err := l.addReceipts(receipts)
	if fresh && err == nil {
		s.putLedger(l)
	}
	if answer.Taken > 0 && s.byKey[key] == l {
		s.counted += int64(answer.Taken)
		s.markUnread(l, true)
	}
	return answer, err
}

// checkReceipts returns an error unless all receipts are of a shard of the plan that exists.
func (r *run) checkReceipts(shard int, receipts []score.Receipt) error {
	if r == nil || r.plan == nil {
		return nil
	}
	if shard >= r.plan.Shards() {
		return fmt.Errorf("the run's plan has %d shards, and no shard %d", r.plan.Shards(), shard)
	}
	for _, receipt := range receipts {
		if err := r.plan.Check(receipt.Planned, shard); err != nil {
			return err
		}
	}
	return nil
}

func (l *ShardLedger) addReceipts(receipts []score.Receipt) (protocol.ReceiptsAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range receipts {
		if err := l.sums.Accepts(r); err != nil {
			return protocol.ReceiptsAnswer{}, err
		}
	}
	if len(l.ended)+len(receipts) > maxEnded && l.run.plan == nil {
		return protocol.ReceiptsAnswer{}, l.fullError()
	}
	var answer protocol.ReceiptsAnswer
	for _, r := range receipts {
		if l.hasCounted(r.Planned.Index) {
			continue
		}
		if err := l.addEpisode(r.Planned, r.Episode); err != nil {
			return answer, err
		}
		l.sums.Opened++
		answer.Taken++
	}
	answer.Ended, answer.Begun = l.listCounted(), max(0, l.sums.Opened-l.sums.Scored-l.sums.Failed)
	for _, index := range slices.Sorted(maps.Keys(l.lost)) {
		answer.Lost.Add(index)
	}
	return answer, nil
}
