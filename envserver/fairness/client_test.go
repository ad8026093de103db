package fairness

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
)

func TestClientAt(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7:8000": "192.0.2.7", "192.0.2.7": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7",
		"[2001:db8:0:1::7]:8000": "2001:db8:0:1::/64", "2001:db8:0:1:ffff::": "2001:db8:0:1::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "pipe": "pipe", "": "",
	} {
		if got := ClientAt(address); got != want {
			t.Errorf("the client at %q is %q, want %q", address, got, want)
		}
	}
}

// Long readings occupy half of the processors, and those of a client one. Short ones wait for
// nobody.
func TestProcessorsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := max(runtime.GOMAXPROCS(0)/2, 1)
		processors := NewProcessors()
		in := func(client string) context.Context { return NewContext(t.Context(), processors, client) }
		got := make(chan func(), all+3)
		read := func(client string, length int) {
			release, err := OccupyProcessor(in(client), length)
			if err != nil {
				t.Error(err)
			}
			got <- release
		}
		for range 3 {
			go read("greedy", longReading)
		}
		for i := range all {
			go read(fmt.Sprint("another", i), longReading)
		}
		synctest.Wait()
		if len(got) != all {
			t.Errorf("%d long readings at a time, want %d", len(got), all)
		}
		read("greedy", longReading-1)
		if release, err := OccupyProcessor(t.Context(), longReading); err != nil {
			t.Error(err)
		} else {
			release()
		}
		for range all + 4 {
			(<-got)()
		}
		if n := processors.Users(); n != 0 {
			t.Errorf("%d clients still occupy a processor", n)
		}
	})
}
