package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
)

func free(sessions int32) func(*v1alpha1.Autoscaling) {
	return func(a *v1alpha1.Autoscaling) { a.FreeSessions = new(intstr.FromInt32(sessions)) }
}

func delay(seconds int32) func(*v1alpha1.Autoscaling) {
	return func(a *v1alpha1.Autoscaling) { a.ScaleDownDelaySeconds = new(seconds) }
}

// watched returns a history of constant needs over an hour.
func watched(a *v1alpha1.Autoscaling, n int64) history {
	var h history
	for t := noon.Add(-time.Hour); t.Before(noon); t = t.Add(5 * time.Second) {
		h = h.after(t, n, n, a)
	}
	return h
}

func TestAutoscale(t *testing.T) {
	t.Parallel()
	small := bounds(1, 10)
	number := bounds(1, 10, free(15))
	zero := bounds(0, 10)
	at := func(to int32, reason string) Scaling {
		return Scaling{To: to, Reason: reason, Limit: v1alpha1.ReasonWithinLimits}
	}
	limited := func(to int32, reason, limit string) Scaling { return Scaling{To: to, Reason: reason, Limit: limit} }
	tests := map[string]struct {
		a    *v1alpha1.Autoscaling
		load load
		from int32
		past history
		want Scaling
	}{
		"at rest":                              {small, load{stay: 1, idle: 1}, 1, history{}, at(1, "")},
		"a share is free to the last session":  {small, load{active: 16, stay: 2}, 2, history{}, at(2, "")},
		"a share is free no more":              {small, load{active: 17, stay: 2}, 2, history{}, at(3, scaleFree)},
		"a number is free to the last session": {number, load{active: 5, stay: 2}, 2, history{}, at(2, "")},
		"a number is free no more":             {number, load{active: 6, stay: 2}, 2, history{}, at(3, scaleFree)},
		"a burst scales up immediately":        {small, load{active: 64, stay: 1}, 1, history{}, at(8, scaleFree)},
		"servers that start are room to come": {small, load{active: 64, stay: 8, idle: 7, unready: 7}, 8, history{},
			at(8, "")},
		"not beyond the maximum": {small, load{active: 99, stay: 1}, 1, history{},
			limited(10, scaleFree, v1alpha1.ReasonAtMaximum)},
		"at the maximum": {small, load{active: 99, stay: 10}, 10, history{},
			limited(10, "", v1alpha1.ReasonAtMaximum)},
		"the maximum was lowered": {small, load{active: 99, stay: 12}, 12, history{},
			limited(10, scaleMaximum, v1alpha1.ReasonAtMaximum)},
		"the minimum was raised": {bounds(4, 10), load{active: 1, stay: 1}, 1, history{},
			limited(4, scaleMinimum, v1alpha1.ReasonAtMinimum)},
		"at the minimum": {bounds(4, 10), load{stay: 4, idle: 4}, 4, watched(bounds(4, 10), 1),
			limited(4, "", v1alpha1.ReasonAtMinimum)},
		"superfluous, just seen": {small, load{stay: 4, idle: 4}, 4, history{}, at(4, "")},
		"superfluous for the delay": {small, load{stay: 4, idle: 4}, 4, watched(small, 1),
			at(1, scaleUnneeded)},
		"superfluous but for a moment": {small, load{stay: 4, idle: 4}, 4,
			watched(small, 1).after(noon.Add(-time.Second), 3, 3, small), at(3, scaleUnneeded)},
		"no delay": {bounds(1, 10, delay(0)), load{stay: 4, idle: 4}, 4, history{},
			at(1, scaleUnneeded)},
		"only idle servers go": {small, load{active: 4, stay: 6, idle: 2}, 6, watched(small, 1),
			at(4, scaleUnneeded)},
		"all have sessions: one is removed": {small, load{active: 4, stay: 4}, 4, watched(small, 1),
			at(3, scaleUnneeded)},
		"all are played, and one is on its way": {small, load{active: 4, stay: 4, leaving: 1, lasting: 1}, 4,
			watched(small, 1), at(4, "")},
		"the idle ones are about to be removed": {small, load{active: 4, stay: 6, idle: 2}, 4, watched(small, 1),
			at(4, "")},
		"more are about to be created": {small, load{active: 4, stay: 4}, 6, watched(small, 1),
			at(4, scaleUnneeded)},
		"a full one would go first": {small, load{active: 10, stay: 6, idle: 5, exposed: 1}, 6,
			watched(small, 2), at(6, "")},
		"a full one would go after starting": {small, load{active: 10, stay: 6, idle: 5, unready: 2, exposed: 1}, 6,
			watched(small, 2), at(4, scaleUnneeded)},
		"silence is no reason to add": {small, load{active: 8, stay: 4, silent: 3}, 4, history{}, at(4, "")},
		"silence is no reason to remove": {small, load{stay: 4, silent: 3, idle: 1}, 4, watched(small, 4),
			at(4, "")},
		"silence begins, and is taken for full": {small, load{stay: 4, silent: 3, idle: 1}, 4, watched(small, 1),
			at(4, "")},
		"silence hides no burst": {small, load{active: 40, stay: 4, silent: 1}, 4, history{},
			at(5, scaleFree)},
		"more than needed though silent is full": {small, load{stay: 4, silent: 1, idle: 3}, 4, watched(small, 2),
			at(2, scaleUnneeded)},
		"unused":                 {zero, load{stay: 1, idle: 1}, 1, watched(zero, 0), at(0, scaleIdle)},
		"unused for a moment":    {zero, load{stay: 1, idle: 1}, 1, watched(zero, 1), at(1, "")},
		"unused without servers": {zero, load{}, 0, watched(zero, 0), at(0, "")},
		"a run waits":            {zero, load{awaited: true}, 0, watched(zero, 0), at(1, scaleAwaited)},
		"a run waits for several": {bounds(0, 10, free(25)), load{awaited: true}, 0, watched(zero, 0),
			at(3, scaleFree)},
		"a run keeps the last server": {zero, load{stay: 1, idle: 1, awaited: true}, 1, watched(zero, 1),
			at(1, "")},
		"a session keeps the last server": {zero, load{stay: 1, active: 1}, 1, watched(zero, 1), at(1, "")},
		"a lasting session brings one back": {zero, load{leaving: 1, lasting: 1}, 0, watched(zero, 0),
			at(1, scaleFree)},
		"a silent leaving one brings none back": {zero, load{leaving: 1, unsure: true}, 0, watched(zero, 0),
			at(0, "")},
		"a silent terminating server keeps the last": {zero, load{stay: 1, idle: 1, leaving: 1, unsure: true}, 1,
			watched(zero, 0), at(1, "")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.load.size = 10
			got, _ := chooseServers(tt.a, tt.load, tt.from, tt.past, noon)
			if got.From != tt.from || (got.Why == "") != (got.From == got.To) {
				t.Errorf("decided %+v", got)
			}
			tt.want.From, tt.want.Why, tt.want.needed = got.From, got.Why, got.needed
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Scaling{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// After a restart, or a long time without a pass, the delay starts again.
func TestAutoscaleDelayStartsAgainAfterAGap(t *testing.T) {
	t.Parallel()
	a := bounds(1, 10)
	idle := load{size: 10, stay: 4, idle: 4}
	for name, tt := range map[string]struct {
		past history
		want int32
	}{
		"all along": {watched(a, 1), 1},
		"restarted": {history{}, 4},
		"away for long": {func() history { h := watched(a, 1); h.last = noon.Add(-maxGap - time.Second); return h }(),
			4},
		"a clock behind": {func() history { h := watched(a, 1); h.last = noon.Add(time.Hour); return h }(), 4},
	} {
		if got, _ := chooseServers(a, idle, 4, tt.past, noon); got.To != tt.want {
			t.Errorf("%s: %d servers, want %d", name, got.To, tt.want)
		}
	}
}

func drawAutoscaling(r *rapid.T) *v1alpha1.Autoscaling {
	least := rapid.Int32Range(0, 20).Draw(r, "min")
	a := bounds(least, rapid.Int32Range(max(1, least), 30).Draw(r, "max"),
		delay(rapid.SampledFrom([]int32{0, 30, 300}).Draw(r, "delay")))
	if rapid.Bool().Draw(r, "number") {
		free(rapid.Int32Range(0, 200).Draw(r, "free"))(a)
	} else {
		a.FreeSessions = new(intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 99).Draw(r, "share"))))
	}
	return a
}

func drawLoad(r *rapid.T) load {
	stay := rapid.Int32Range(0, 30).Draw(r, "stay")
	silent := rapid.Int32Range(0, stay).Draw(r, "silent")
	idle := rapid.Int32Range(0, stay-silent).Draw(r, "idle")
	l := load{
		size: rapid.Int64Range(1, 50).Draw(r, "size"), stay: stay, silent: silent, idle: idle,
		unready: rapid.Int32Range(0, idle).Draw(r, "unready"),
		exposed: rapid.Int32Range(0, stay-idle).Draw(r, "exposed"), leaving: rapid.Int32Range(0, 3).Draw(r, "leaving"),
		awaited: rapid.Bool().Draw(r, "awaited"),
	}
	if busy := int64(stay - silent - idle); busy > 0 {
		l.active = rapid.Int64Range(busy, busy*l.size).Draw(r, "active")
	}
	if l.leaving > 0 {
		l.lasting, l.unsure = rapid.Int64Range(0, 9).Draw(r, "lasting"), rapid.Bool().Draw(r, "unsure")
	}
	return l
}

func TestAutoscaleProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		a, l := drawAutoscaling(r), drawLoad(r)
		from := rapid.Int32Range(0, 40).Draw(r, "from")
		past := watched(a, rapid.Int64Range(0, 40).Draw(r, "needed before"))
		got, _ := chooseServers(a, l, from, past, noon)
		if got.To < *a.MinReplicas || got.To > a.MaxReplicas {
			r.Fatalf("%d servers, allowed are %d to %d", got.To, *a.MinReplicas, a.MaxReplicas)
		}
		if low, high := l.countNeeded(a); low > high {
			r.Fatalf("%d are needed if the silent ones are empty, %d if they are full", low, high)
		}
		more := l
		more.active += rapid.Int64Range(1, 100).Draw(r, "more")
		if busier, _ := chooseServers(a, more, from, past, noon); busier.To < got.To {
			r.Fatalf("%d servers for %d sessions, %d for %d", got.To, l.active, busier.To, more.active)
		}
		// The number is sufficient for every buffer, unless the maximum limits it.
		if number, percent := parseFree(a); got.To < a.MaxReplicas && got.To > 0 &&
			(*a.MinReplicas > 0 || l.awaited || l.active+l.lasting > 0) {
			capacity := int64(got.To) * l.size
			if vacant := capacity - l.active; vacant < number || vacant*100 < percent*capacity {
				r.Fatalf("%d servers of %d sessions leave %d free with %d open", got.To, l.size, vacant, l.active)
			}
		}
		// Repeating a pass, as with a stale cache, changes nothing but the end of the delay.
		l.stay = max(l.stay, got.To)
		if again, _ := chooseServers(a, l, got.To, past, noon); again.To > got.To {
			r.Fatalf("from %d to %d, and then to %d", from, got.To, again.To)
		}
	})
}

// TestWindow compares with the maximum of all samples.
func TestWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		span := time.Duration(rapid.IntRange(0, 20).Draw(r, "span")) * time.Second
		var w window
		var all []sample
		now := noon
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 60).Draw(r, "needs") {
			now = now.Add(time.Duration(rapid.IntRange(0, 7).Draw(r, "pause")) * time.Second)
			all, w = append(all, sample{now, n}), w.with(sample{now, n}, span)
			want := int64(0)
			for _, s := range all {
				if now.Sub(s.at) <= span {
					want = max(want, s.n)
				}
			}
			if w.greatest() != want || len(w) > 10 {
				r.Fatalf("greatest of %v is %d, want %d", w, w.greatest(), want)
			}
		}
	})
}

// TestAutoscaleDoesNotFlap plays a load that oscillates: the pool grows to the peaks and stays
// there as long as the load returns within the delay.
func TestAutoscaleDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		a := drawAutoscaling(r)
		level, swing := rapid.Int64Range(0, 200).Draw(r, "level"), rapid.Int64Range(0, 100).Draw(r, "swing")
		from, past, now := max(1, *a.MinReplicas), history{}, noon
		var lastUp time.Time
		for range 200 {
			now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(r, "pause")) * time.Second)
			l := load{size: 10, stay: from, active: level + rapid.Int64Range(0, swing).Draw(r, "noise"),
				idle: rapid.Int32Range(0, from).Draw(r, "idle")}
			var got Scaling
			got, past = chooseServers(a, l, from, past, now)
			if got.To < from && now.Sub(lastUp) < getScaleDownDelay(a) {
				r.Fatalf("down from %d to %d, %s after going up", from, got.To, now.Sub(lastUp))
			}
			if got.To > from {
				lastUp = now
			}
			from = got.To
		}
	})
}

func BenchmarkAutoscale(b *testing.B) {
	a := bounds(1, 1000)
	past, now := watched(a, 5), noon
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(5 * time.Second)
		_, past = chooseServers(a, load{size: 2000, stay: 10, active: int64(i % 20000)}, 10, past, now)
	}
}
