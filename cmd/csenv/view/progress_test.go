package view

import (
	"bytes"
	"testing"
	"time"
)

func TestLinesOfProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		total int64
		want  string
	}{
		"a plan":          {120, "run a: 30 of 120 episodes, 1 errored, 2.0/s, 45s left\n"},
		"years of it":     {1 << 31, "run a: 30 of 2147483648 episodes, 1 errored, 2.0/s, unknown left\n"},
		"as many as come": {UnknownTotal, "run a: 30 episodes, 1 errored, 2.0/s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Unix(0, 0)
			m := NewMeter(&out, "run a", func() time.Time { return now })
			m.Set(1, tc.total, 0)
			now = now.Add(15 * time.Second)
			m.Set(30, tc.total, 1)
			if got := out.String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
