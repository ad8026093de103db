package openenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

const benchStep = `{"type":"step","data":{"kind":"say","text":"Dear Zoë, I am sorry about the double charge on invoice 48210. The second payment of $148.20 goes ` +
	`back to your card within five business days. Nothing else is needed from you.","reward":200}}`

// BenchmarkStep plays steps over the loopback interface. Its allocations are those of the server
// and a bare client together.
func BenchmarkStep(b *testing.B) {
	for _, sessions := range []int{1, 100} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			_, url := serve(b, Config{})
			peers := make([]*wire.Peer, sessions)
			for i := range peers {
				peers[i] = wire.Connect(b, url)
				peers[i].Ask(`{"type":"reset","data":{"seed":1}}`)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i, p := range peers {
				n := b.N / sessions
				if i < b.N%sessions {
					n++
				}
				wg.Go(func() { playSteps(b, p.Conn, n) })
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

func playSteps(b *testing.B, conn *websocket.Conn, n int) {
	frame := []byte(benchStep)
	for range n {
		if err := conn.WriteMessage(websocket.TextMessage, frame); err != nil {
			b.Error(err)
			return
		}
		_, r, err := conn.NextReader()
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, r)
	}
}

// BenchmarkSession opens a session, plays one step and closes it.
func BenchmarkSession(b *testing.B) {
	_, url := serve(b, Config{})
	b.ReportAllocs()
	for b.Loop() {
		p := wire.Connect(b, url)
		p.Ask(`{"type":"reset"}`)
		p.Ask(benchStep)
		p.Send(`{"type":"close"}`)
		p.Closed()
	}
}

// BenchmarkIdleSession reports the memory of a session that waits for its next step: heap and
// stack, of the server and a bare client with small buffers together.
func BenchmarkIdleSession(b *testing.B) {
	const sessions = 1000
	for b.Loop() {
		_, url := serve(b, Config{})
		dialer := websocket.Dialer{ReadBufferSize: 256, WriteBufferSize: 256, WriteBufferPool: &sync.Pool{}}
		before := memoryInUse()
		for range sessions {
			p := wire.DialPeer(b, &dialer, "ws"+url[len("http"):]+"/ws")
			p.Ask(`{"type":"reset"}`)
			p.Ask(benchStep)
		}
		b.ReportMetric(float64(memoryInUse()-before)/sessions, "B/session")
	}
}

func memoryInUse() uint64 {
	for range 3 { // a stack shrinks by half in each collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func BenchmarkDecodeMessage(b *testing.B) {
	raw := []byte(benchStep)
	b.ReportAllocs()
	for b.Loop() {
		if _, fault := protocol.DecodeMessage(raw); fault != nil {
			b.Fatal(fault)
		}
	}
}

func BenchmarkWriteReply(b *testing.B) {
	r := episode.Result{Observation: echo.Observation{Text: benchStep, Seed: 7},
		Reward: 200}
	var out bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		_ = protocol.WriteResult(&out, echo.Kind{}, r)
	}
	if !json.Valid(out.Bytes()) {
		b.Fatal(out.String())
	}
}

// BenchmarkRelayedStep plays steps through a server that forwards them to the session's server.
// Compare it with BenchmarkStep of one session.
func BenchmarkRelayedStep(b *testing.B) {
	members := servePool(b, Config{}, Config{})
	p := attachTo(b, members[0].url, wire.CreateSession(b, members[1].url))
	p.Ask(`{"type":"reset","data":{"seed":1}}`)
	b.ReportAllocs()
	b.ResetTimer()
	playSteps(b, p.Conn, b.N)
}

// BenchmarkFork forks sessions of tickets. "episode" is the copy of an episode alone, "sessions"
// forks into 100 at a time and ends them, and "paced" forks 100 times a second over a socket.
func BenchmarkFork(b *testing.B) {
	const n = 100
	s, url := serve(b, Config{Kind: newTicketKind(b), MaxSessions: 2 * n})
	peer := wire.Connect(b, url)
	peer.Ask(`{"type":"reset","data":{"seed":3,"scenario":"B07","task":"ticket-resolve"}}`)
	peer.Ask(`{"type":"step","data":` + responds + `}`)
	parent := s.sessions.listSessions()[0]
	endForks := func(want int) {
		if got := s.sessions.countActive(); got != want+1 {
			b.Fatalf("%d sessions, want %d", got, want+1)
		}
		for _, fork := range s.sessions.listSessions() {
			if fork != parent {
				fork.end(endClosed, "")
			}
		}
	}
	b.Run("episode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = parent.player.Fork(nil)
		}
	})
	b.Run("sessions", func(b *testing.B) {
		request := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"session/fork","params":{"n":%d}}`, n)
		for b.Loop() {
			var out bytes.Buffer
			s.answerRPC(b.Context(), &out, request, parent, "")
			endForks(n)
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "forks/s")
	})
	b.Run("paced", func(b *testing.B) {
		ticks := time.NewTicker(time.Second / 100)
		defer ticks.Stop()
		took := make([]float64, 0, b.N)
		for b.Loop() {
			<-ticks.C
			began := time.Now()
			peer.Ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"session/fork"}}`)
			took = append(took, time.Since(began).Seconds()*1000)
			endForks(1)
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)*99/100], "ms-p99")
	})
}

// BenchmarkForkMemory reports the heap of a fork that is held beyond that of an empty session, and
// after one more step.
func BenchmarkForkMemory(b *testing.B) {
	const n = 10_000
	s := newTestServer(b, Config{Kind: newTicketKind(b), MaxSessions: 2*n + 1})
	defer s.Close()
	held := func(open func() *session) float64 {
		before := testkit.HeapInUse()
		sessions := make([]*session, n)
		for i := range sessions {
			sessions[i] = open()
		}
		used := testkit.HeapInUse() - before
		for _, session := range sessions {
			session.end(endClosed, "")
		}
		return float64(used) / n
	}
	opened := func() *session {
		session, err := s.openSession(b.Context(), newID(""), "")
		if err != nil {
			b.Fatal(err)
		}
		return session
	}
	parent := opened()
	parent.player.Reset([]byte(`{"seed":3,"scenario":"B07","task":"ticket-resolve"}`), protocol.StrictSeed, "data")
	parent.player.Act(b.Context(), json.RawMessage(responds))
	for b.Loop() {
		empty := held(opened)
		fork := func() *session {
			forks, err := s.forkEpisode(b.Context(), parent.player, 1, "")
			if err != nil {
				b.Fatal(err)
			}
			return forks[0]
		}
		b.ReportMetric(held(fork)-empty, "bytes/fork")
		b.ReportMetric(held(func() *session {
			session := fork()
			session.player.Act(b.Context(), json.RawMessage(searches))
			return session
		})-empty, "bytes/fork-after-a-step")
		b.ReportMetric(empty, "bytes/session")
	}
}
