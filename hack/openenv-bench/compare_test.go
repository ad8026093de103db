package main

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/load"
)

func TestParseSizes(t *testing.T) {
	got, err := parseSizes("1, 100,19000")
	if err != nil || cmp.Diff([]int{1, 100, 19000}, got) != "" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "-1", "many", "1;2"} {
		if _, err := parseSizes(bad); err == nil {
			t.Errorf("--sessions %q is taken", bad)
		}
	}
}

// The ratio is to the official server under the same number of sessions, and a server that failed under a load says so.
func TestLine(t *testing.T) {
	result := func(steps int64, failures map[string]int) load.Result {
		return load.Result{
			Sessions: 100, Steps: steps, Elapsed: 10 * time.Second, Step: load.Latencies{P50: 900 * time.Microsecond, P99: 12345 * time.Microsecond},
			Connect: load.Latencies{P99: 40 * time.Millisecond}, Failures: failures,
		}
	}
	rows := []row{
		{server: official, asked: 1, Result: result(1, nil)},
		{server: official, asked: 100, Result: result(30_000, nil), idle: 100 << 20, memory: 110 << 20},
		{server: csenvEcho, asked: 100, Result: result(600_000, map[string]int{"read: EOF": 2}), idle: 10 << 20, memory: 12 << 20},
		{server: official, asked: 19000, err: errors.New("no session opened")},
		{server: csenvEcho, asked: 19000, Result: result(500_000, nil)},
	}
	for i, want := range map[int]string{
		2: "| 100 | csenv-echo | 100 | 60000 | 20.0 | 900µs | 12.3ms | 40ms | 12 MiB | 20.5 KiB | 2: read: EOF |\n",
		3: "| 19000 | openenv-python | 0 | – | – | – | – | – | – | – | no session opened |\n",
		4: "| 19000 | csenv-echo | 100 | 50000 | – | 900µs | 12.3ms | 40ms | 0 MiB | 0.0 KiB | 0 |\n",
	} {
		if diff := cmp.Diff(want, line(rows[i], rows)); diff != "" {
			t.Errorf("row %d (-want +got)\n%s", i, diff)
		}
	}
}
