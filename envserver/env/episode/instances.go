package episode

import (
	"runtime"
	"sync"
	"weak"
)

// Instances shares the instances of scenarios among the episodes that play them at the same time,
// as the episodes of a group of rollouts do: each is drawn once, and forgotten after its last
// episode. The zero value is ready, and safe for concurrent use.
type Instances[T any] struct {
	mu    sync.Mutex
	drawn map[instance]weak.Pointer[T]
}

type instance struct {
	scenario string
	seed     int64
}

// Get returns the instance of a scenario with a seed, and draws it if no episode has it. The caller
// keeps the pointer as long as it uses the instance, which nobody changes.
func (s *Instances[T]) Get(scenario string, seed int64, draw func() (*T, error)) (*T, error) {
	key := instance{scenario, seed}
	s.mu.Lock()
	shared := s.drawn[key].Value()
	s.mu.Unlock()
	if shared != nil {
		return shared, nil
	}
	drawn, err := draw()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared := s.drawn[key].Value(); shared != nil { // drawn meanwhile
		return shared, nil
	}
	if s.drawn == nil {
		s.drawn = map[instance]weak.Pointer[T]{}
	}
	s.drawn[key] = weak.Make(drawn)
	runtime.AddCleanup(drawn, s.forget, key)
	return drawn, nil
}

// forget removes an instance, unless it was drawn again.
func (s *Instances[T]) forget(key instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn[key].Value() == nil {
		delete(s.drawn, key)
	}
}
