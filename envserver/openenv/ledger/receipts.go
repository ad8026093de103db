package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// AddReceipts counts the receipts' episodes, each once. Without receipts it opens no ledger.
func (s *Ledgers) AddReceipts(key Key, receipts []score.Receipt) (protocol.ReceiptsAnswer, error) {
	if len(receipts) == 0 {
		if l := s.find(key); l != nil {
			return l.addReceipts(nil)
		}
		return protocol.ReceiptsAnswer{}, nil
	}
	l, err := s.Open(protocol.RunTag{Run: key.Run, Shard: key.Shard, PassScore: receipts[0].PassScore})
	if err != nil {
		return protocol.ReceiptsAnswer{}, err
	}
	answer, err := l.addReceipts(receipts)
	if answer.Taken > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counted += int64(answer.Taken)
		if s.byKey[key] == l {
			s.unread[key] = struct{}{}
		}
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
