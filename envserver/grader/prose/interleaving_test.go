package prose

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader"
)

// TestInterleavedJudging checks that concurrent judgements, of the same and of other tickets, give
// the same results as sequential ones.
func TestInterleavedJudging(t *testing.T) {
	const workers = 4
	tickets, err := pool()
	if err != nil {
		t.Fatal(err)
	}
	judgeAll := func(o *Judge, from int) []grader.Verdict {
		var out []grader.Verdict
		for i := range tickets {
			ticket := tickets[(from+i)%len(tickets)]
			for _, reply := range []string{ticket.References.Good[0], phrasebookOf(ticket.Language).promise} {
				v, err := o.Judge(context.Background(),
					grader.Case{Ticket: ticket, Reply: reply, Actions: goldActions(ticket)})
				if err != nil {
					t.Error(err)
				}
				out = append(out, v)
			}
		}
		return out
	}
	shared := New()
	got := make([][]grader.Verdict, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { got[i] = judgeAll(shared, i) })
	}
	wg.Wait()
	for i := range workers {
		if diff := cmp.Diff(judgeAll(New(), i), got[i]); diff != "" {
			t.Errorf("worker %d (-alone +together):\n%s", i, diff)
		}
	}
}

// TestCacheKeepsWhatIsUsed checks that a cache drops unused entries and keeps the others.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	c := newCache[int, int](maxTexts)
	computed := map[int]int{}
	get := func(key int) {
		if got := loadOrCompute(c, key, func(k int) int { computed[k]++; return 2 * k }); got != 2*key {
			t.Fatalf("the entry of %d is %d", key, got)
		}
	}
	for key := range 5 * maxTexts {
		get(key)
		get(0)
	}
	get(1)
	if computed[0] != 1 || computed[1] != 2 {
		t.Errorf("computed the entry in use %d times and the other %d times, want 1 and 2", computed[0], computed[1])
	}
	if n := c.Len(); n > maxTexts {
		t.Errorf("the cache holds %d entries, want at most %d", n, maxTexts)
	}
}

// TestCachedTextsDoNotChangeScores compares a new judge with one that has cached all texts.
func TestCachedTextsDoNotChangeScores(t *testing.T) {
	used := New()
	for _, s := range publicTickets(t) {
		for seed := range int64(2) {
			ticket := instance(t, s, seed)
			again, fresh := *ticket, New()
			for _, reply := range ticket.References.Good {
				a, b := judgeReply(t, used, ticket, reply), judgeReply(t, fresh, &again, reply)
				if diff := cmp.Diff(b, a); diff != "" {
					t.Fatalf("%s seed %d (-fresh +used):\n%s", s.ID, seed, diff)
				}
			}
		}
		if raced {
			return
		}
	}
}
