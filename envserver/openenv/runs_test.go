package openenv

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestRunReports(t *testing.T) {
	server, url := serve(t, Config{})
	p, q := wire.Connect(t, url), wire.Connect(t, url)
	reset := func(run string, shard, index int) string {
		return fmt.Sprintf(`{"type":"reset","data":{"run":%q,"shard":%d,"episode":%d,"seed":1}}`, run, shard, index)
	}
	p.Ask(reset("b", 0, 0))
	p.Ask(`{"type":"step","data":{"kind":"finish","score":900000}}`)
	p.Ask(reset("b", 1, 1))
	p.Ask(`{"type":"step","data":{"kind":"failed","score":100000}}`)
	p.Ask(reset("b", 1, 2))
	p.Ask(`{"type":"step","data":{"kind":"errored","score":0}}`)
	p.Ask(reset("b", 1, 2))
	q.Ask(reset("a", 0, 0))
	want := []score.RunReport{{Run: "a", Active: 1, Opened: 1}, {Run: "b", Active: 1, Opened: 4, Scored: 1, Failed: 1,
		Errored: 1, ScoreSum: 1_000_000}}
	if diff := cmp.Diff(want, server.makeReport(nil).Runs); diff != "" {
		t.Errorf("while two episodes are played: %s", diff)
	}
	p.Ask(`{"type":"reset","data":{"seed":1}}`)
	q.Ask(`{"type":"step","data":{"kind":"panic"}}`)
	want[0].Active, want[0].Errored, want[1].Active = 0, 1, 0
	if diff := cmp.Diff(want, server.makeReport(nil).Runs); diff != "" {
		t.Errorf("after one was abandoned and one panicked: %s", diff)
	}
	q.Ask(reset("a", 0, 1))
	_ = p.Conn.Close()
	_ = q.Conn.Close()
	wire.AwaitCondition(t, "the sessions to end", func() bool { return server.sessions.countActive() == 0 })
	want[0].Opened = 2
	if diff := cmp.Diff(want, server.makeReport(nil).Runs); diff != "" {
		t.Errorf("after the sessions: %s", diff)
	}
}
