package slots

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTakeRefusesWhenFull(t *testing.T) {
	s := New(1, 0)
	if err := s.Take(t.Context(), func() bool { return false }); err != nil {
		t.Fatalf("the first slot: %v", err)
	}
	if err := s.Take(t.Context(), func() bool { return false }); !errors.Is(err, ErrFull) {
		t.Errorf("a full server: %v, want ErrFull", err)
	}
	s.Release()
	if err := s.Take(t.Context(), func() bool { return false }); err != nil {
		t.Errorf("after a release: %v", err)
	}
	s.Drain()
	s.Release()
	if s.Reserve() != nil {
		t.Error("a draining server reserves a slot")
	}
}

// A blocked server refuses sessions although slots are free, until it is no longer blocked.
func TestBlock(t *testing.T) {
	s, reason := New(1, time.Hour), errors.New("no judge")
	s.Block(reason)
	if err := s.Take(t.Context(), func() bool { return false }); !errors.Is(err, reason) || s.Reserve() != nil ||
		!errors.Is(s.Closed(), reason) || !errors.Is(s.Refusal(), reason) || s.Draining() {
		t.Errorf("a blocked server: %v, %v", err, s.Closed())
	}
	s.Block(nil)
	if err := s.Take(t.Context(), func() bool { return false }); err != nil || s.Closed() != nil || !errors.Is(s.Refusal(), ErrFull) {
		t.Errorf("afterwards: %v, %v", err, s.Closed())
	}
	s.Block(reason)
	s.Drain()
	if !errors.Is(s.Closed(), ErrDraining) {
		t.Errorf("a blocked server that drains: %v", s.Closed())
	}
}

func TestTakeWaitsForASlot(t *testing.T) {
	for name, tc := range map[string]struct {
		during func(s *Slots)
		want   error
		after  time.Duration
	}{
		"released":  {during: (*Slots).Release, want: nil, after: time.Second},
		"draining":  {during: (*Slots).Drain, want: ErrDraining, after: time.Second},
		"timed out": {during: func(*Slots) {}, want: ErrFull, after: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(1, 3*time.Second)
				if err := s.Take(t.Context(), func() bool { return false }); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				time.AfterFunc(time.Second, func() { tc.during(s) })
				if err := s.Take(t.Context(), func() bool { return false }); !errors.Is(err, tc.want) || time.Since(began) != tc.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), tc.want, tc.after)
				}
			})
		})
	}
}

// A reservation gives its slot to one session, and frees it if it isn't used.
func TestReservation(t *testing.T) {
	s := New(1, 0)
	r := s.Reserve()
	if r == nil || s.Reserve() != nil {
		t.Fatal("one slot is reserved twice, or not at all")
	}
	moved := r.Move()
	if r.Release(); moved == nil || r.Move() != nil || s.Reserve() != nil {
		t.Error("the slot was not moved, or twice")
	}
	ctx := moved.NewContext(t.Context())
	if err := s.Take(ctx, func() bool { return false }); err != nil {
		t.Errorf("taking the reserved slot: %v", err)
	}
	if err := s.Take(ctx, func() bool { return false }); !errors.Is(err, ErrFull) {
		t.Errorf("taking it again: %v, want ErrFull", err)
	}
	moved.Release() // does nothing: the session has the slot
	if s.Reserve() != nil {
		t.Error("the slot was freed while the session has it")
	}
	s.Release()
	unused := s.Reserve()
	unused.Release()
	unused.Release()
	if s.Reserve() == nil || s.Reserve() != nil {
		t.Error("an unused reservation is not freed exactly once")
	}
}

func TestNilReservation(t *testing.T) {
	var r *Reservation
	r.Release()
	if r.Move() != nil || FromContext(r.NewContext(context.Background())) != nil {
		t.Error("a nil reservation has a slot")
	}
}
