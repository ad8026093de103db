package openenv

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/score"
)

func TestRunReports(t *testing.T) {
	server, url := serve(t, Config{})
	p, q := connect(t, url), connect(t, url)
	reset := func(run string, shard, index int) string {
		return fmt.Sprintf(`{"type":"reset","data":{"run":%q,"shard":%d,"episode":%d,"seed":1}}`, run, shard, index)
	}
	p.ask(reset("b", 0, 0))
	p.ask(`{"type":"step","data":{"kind":"finish","score":900000}}`)
	p.ask(reset("b", 1, 1))
	p.ask(`{"type":"step","data":{"kind":"failed","score":100000}}`)
	p.ask(reset("b", 1, 2))
	p.ask(`{"type":"step","data":{"kind":"errored","score":0}}`)
	p.ask(reset("b", 1, 2))
	q.ask(reset("a", 0, 0))
	want := []score.RunReport{{Run: "a", Active: 1}, {Run: "b", Active: 1, Scored: 1, Failed: 1, Errored: 1,
		ScoreSum: 1_000_000}}
	if diff := cmp.Diff(want, server.report().Runs); diff != "" {
		t.Errorf("while two episodes are played: %s", diff)
	}
	p.ask(`{"type":"reset","data":{"seed":1}}`)
	q.ask(`{"type":"step","data":{"kind":"panic"}}`)
	want[0].Active, want[0].Errored, want[1].Active = 0, 1, 0
	if diff := cmp.Diff(want, server.report().Runs); diff != "" {
		t.Errorf("after one is abandoned and one panicked: %s", diff)
	}
	q.ask(reset("a", 0, 1))
	_ = p.conn.Close()
	_ = q.conn.Close()
	eventually(t, "the sessions to end", func() bool { return server.sessions.active() == 0 })
	if diff := cmp.Diff(want, server.report().Runs); diff != "" {
		t.Errorf("after the sessions: %s", diff)
	}
}

func TestRunReportsAreBounded(t *testing.T) {
	server, _ := serve(t, Config{})
	for i := range score.MaxRunReports + 10 {
		ledger, err := server.ledgers.open(runTag{run: fmt.Sprintf("run-%03d", i), passScore: 1})
		if err != nil {
			t.Fatal(err)
		}
		ledger.touched = time.Unix(int64(i), 0)
	}
	got := server.report().Runs
	if len(got) != score.MaxRunReports || got[0].Run != "run-010" || got[len(got)-1].Run != "run-265" {
		t.Errorf("%d runs from %s, want the %d that were played last", len(got), got[0].Run, score.MaxRunReports)
	}
}
