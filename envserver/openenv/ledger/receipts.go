package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// AddReceipts counts the receipts' episodes, each once, in the ledger of the tag's shard. It makes
// a ledger only if there are receipts and all belong into it, or if opens is true.
func (s *Ledgers) AddReceipts(tag protocol.RunTag, opens bool, receipts []score.Receipt) (protocol.ReceiptsAnswer,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
		l = s.newLedger(tag)
	}
	if opens || len(receipts) > 0 {
		if err := l.accept(tag); err != nil {
			return protocol.ReceiptsAnswer{}, err
		}
	}
	answer, err := l.addReceipts(receipts)
	if fresh && err == nil {
		if !s.makeRoom(time.Now()) {
			return protocol.ReceiptsAnswer{}, ErrFull
		}
		s.byKey[key] = l
	}
	if answer.Taken > 0 && s.byKey[key] == l {
		s.counted += int64(answer.Taken)
		s.unread[key] = struct{}{}
	}
	return answer, err
}

func (l *ShardLedger) addReceipts(receipts []score.Receipt) (protocol.ReceiptsAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	for _, r := range receipts {
		if err := l.sums.Accepts(r); err != nil {
			return protocol.ReceiptsAnswer{}, err
		}
	}
	if len(l.ended)+len(receipts) > maxEnded {
		return protocol.ReceiptsAnswer{}, l.fullError()
	}
	var answer protocol.ReceiptsAnswer
	for _, r := range receipts {
		if _, counted := l.ended[r.Planned.Index]; counted {
			continue
		}
		if err := l.sums.Add(r.Planned, r.Episode); err != nil {
			return answer, err
		}
		l.sums.Opened++
		l.ended[r.Planned.Index] = struct{}{}
		answer.Taken++
	}
	for _, index := range slices.Sorted(maps.Keys(l.ended)) {
		answer.Ended.Add(index)
	}
	return answer, nil
}
