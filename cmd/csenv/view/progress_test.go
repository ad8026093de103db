package view

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLinesOfProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		p    Progress
		want string
	}{
		"a plan": {Progress{Ended: 30, Total: 120, Errored: 1, Score: "0.6120"},
			"run a: 30 of 120 episodes, 1 errored, score 0.6120, 2.0/s, 45s left\n"},
		"years of it":     {Progress{Ended: 30, Total: 1 << 31}, "run a: 30 of 2147483648 episodes, 2.0/s, unknown left\n"},
		"as many as come": {Progress{Ended: 30, Total: UnknownTotal}, "run a: 30 episodes, 2.0/s\n"},
		"resumed":         {Progress{Ended: 30, Total: 45, Resumed: 15}, "run a: 30 of 45 episodes, 1.0/s, 15s left\n"},
		"notes": {Progress{Ended: 0, Total: 45, Notes: []string{"", "waits for the judge"}},
			"run a: 0 of 45 episodes, waits for the judge\n"},
		"only resumed": {Progress{Ended: 30, Total: 45, Resumed: 30}, "run a: 30 of 45 episodes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Unix(0, 0)
			m := NewMeter(&out, "run a", func() time.Time { return now })
			m.Set(Progress{Ended: 1, Total: tc.p.Total})
			now = now.Add(15 * time.Second)
			m.Set(tc.p)
			if got := out.String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	bar, now := NewBar(&out), time.Unix(0, 0)
	bar.Draw("run a", 10, 40, now)
	bar.Draw("run a", 11, 40, now.Add(barInterval-1)) // too soon
	bar.Draw("run a", 12, UnknownTotal, now.Add(barInterval))
	bar.Draw(strings.Repeat("ä", 2*Width), 40, 40, now.Add(barInterval+1)) // the last step
	bar.Clear()
	want := clearLine + "run a [####            ] 10/40" + clearLine + "run a 12" + clearLine +
		strings.Repeat("ä", Width-1) + clearLine
	if got := out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
