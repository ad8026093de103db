package rules

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/api/v1alpha1"
)

// A decision depends on its input alone, and changes nothing of it.
func TestDecidePoolIsPure(t *testing.T) {
	t.Parallel()
	s := healthy(func(p *pass) { p.Env.Spec.Autoscaling = bounds(1, 5) }).Snapshot
	_, first := DecidePool(Input{Snapshot: s, MayUpdate: true})
	internals := cmp.AllowUnexported(Memory{}, history{}, sample{}, serverMemory{})
	if len(first.servers) != 2 || first.history.last != noon {
		t.Fatalf("remembered %+v", first)
	}
	unchanged := Memory{history: first.history, servers: maps.Clone(first.servers)}
	unchanged.history.high, unchanged.history.low = slices.Clone(first.history.high), slices.Clone(first.history.low)
	later := s
	later.Now = noon.Add(limitSpan / 2)
	later.Pods = later.Pods[:1]
	_, second := DecidePool(Input{Snapshot: later, Memory: first, MayUpdate: true})
	_, again := DecidePool(Input{Snapshot: later, Memory: first, MayUpdate: true})
	if diff := cmp.Diff(second, again, internals); diff != "" {
		t.Errorf("two memories of one input:\n%s", diff)
	}
	if diff := cmp.Diff(unchanged, first, internals); diff != "" {
		t.Errorf("the input's memory was changed:\n%s", diff)
	}
}

// If the marks that a smaller number needs can't be written, the number stays, and the status says
// that the pool changes.
func TestUnmarkedServersStay(t *testing.T) {
	t.Parallel()
	p := healthy(wants(1))
	p.Scaling.From, p.Unmarked = 2, true
	if got := p.Servers(p.Unmarked); got != 2 {
		t.Errorf("%d servers", got)
	}
	c := evaluate(Progressing, p)
	if c.Reason != v1alpha1.ReasonRollingOut {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}
