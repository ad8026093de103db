package episode

import (
	"errors"
	"runtime"
	"sync"
	"testing"
)

type drawnTest struct{ seed int64 }

func TestInstancesAreShared(t *testing.T) {
	var s Instances[drawnTest]
	get := func(scenario string, seed int64) *drawnTest {
		d, err := s.Get(scenario, seed, func() (*drawnTest, error) { return &drawnTest{seed}, nil })
		if err != nil || d.seed != seed {
			t.Errorf("instance %v, %v, want seed %d", d, err, seed)
		}
		return d
	}
	first := get("A", 1)
	if get("A", 1) != first || get("A", 2) == first || get("B", 1) == first {
		t.Error("an instance is shared with the same scenario and seed only")
	}
	var wg sync.WaitGroup
	found := make([]*drawnTest, 8)
	for i := range found {
		wg.Go(func() { found[i] = get("C", 3) })
	}
	wg.Wait()
	for _, d := range found {
		if d != found[0] {
			t.Error("episodes that began together have different instances")
		}
	}
	failure := errors.New("no draw")
	if _, err := s.Get("D", 1, func() (*drawnTest, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("error %v, want that of the draw", err)
	}
	runtime.KeepAlive(first)
}

// An instance is forgotten after its last episode, and drawn again.
func TestInstancesAreForgotten(t *testing.T) {
	var s Instances[drawnTest]
	draws := 0
	draw := func() (*drawnTest, error) {
		draws++
		return &drawnTest{7}, nil
	}
	held, err := s.Get("A", 7, draw)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if again, _ := s.Get("A", 7, draw); again != held || draws != 1 {
		t.Errorf("%d draws of a held instance, want 1", draws)
	}
	runtime.KeepAlive(held)
	runtime.GC()
	if _, err := s.Get("A", 7, draw); err != nil || draws != 2 {
		t.Errorf("%d draws, %v, want a second one", draws, err)
	}
}
