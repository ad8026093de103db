package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// attack is a way to harm the server. Run returns what came of it, and an error if it succeeded.
type attack struct {
	name string
	run  func(ctx context.Context, s *server) (string, error)
	// on is the kind of the attacked server, nil for tickets.
	on *kind
	// beside runs concurrently with the attack. It is nil if nothing does.
	beside func(ctx context.Context, s *server) error
}

func (a attack) target() *kind { return cmp.Or(a.on, tickets) }

var attacks = []attack{
	{"8 frames of 16 MiB with a million unknown members", func(ctx context.Context, s *server) (string, error) {
		return s.sendAll(ctx, 8, 1, `{"type":"reset"`+manyMembers(16<<20-20)+`}`)
	}, nil, nil},
	{"16 resets of 16 MiB", func(ctx context.Context, s *server) (string, error) {
		return s.sendAll(ctx, 16, 1, `{"type":"reset","data":{"x":"`+strings.Repeat("x", 16<<20-40)+`"}}`)
	}, nil, nil},
	{"16 mcp messages of 16 MiB", func(ctx context.Context, s *server) (string, error) {
		return s.sendAll(ctx, 16, 1, `{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"ping","params":{`+
			manyMembers(16<<20 - 100)[1:]+`}}}`)
	}, nil, nil},
	{"160 actions of 1 MiB with many members", func(ctx context.Context, s *server) (string, error) {
		return s.sendAll(ctx, 8, 20, `{"type":"step","data":{"action_type":"resolve"`+manyMembers(1<<20-60)+`}}`)
	}, nil, nil},
	{"100 parallel POSTs of 1 MB to /ticket/tasks", func(ctx context.Context, s *server) (string, error) {
		body := `{"split":"train"` + manyMembers(1_000_000) + `}`
		return s.post(ctx, 100, 300, "/ticket/tasks", body, nil)
	}, nil, nil},
	{"1,200 bodies of 1 MB that stall", func(ctx context.Context, s *server) (string, error) {
		return s.stall(ctx, 1200, "POST /ticket/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+
			strings.Repeat("x", 60_000), 25*time.Second)
	}, nil, nil},
	{"16,500 connections with an unfinished header of 15 KB", func(ctx context.Context, s *server) (string, error) {
		return s.stall(ctx, 16_500, "GET /health HTTP/1.1\r\nX: "+strings.Repeat("x", 15_000), 5*time.Second)
	}, nil, nil},
	{"3,000 MCP sessions without a connection", openMCPSessions, nil, nil},
	{"80 messages of ligatures and brackets to the judge", func(ctx context.Context, s *server) (string, error) {
		return s.judgeAll(ctx, strings.Repeat("ﷺ(", 2000))
	}, nil, nil},
	{"80 messages of single letters and brackets to the judge", func(ctx context.Context, s *server) (string, error) {
		return s.judgeAll(ctx, strings.Repeat("a (", 1333))
	}, nil, nil},
	{"5,200 bodies of which a byte comes, renewed", func(ctx context.Context, s *server) (string, error) {
		return s.besides(ctx, 5200, 1, "POST /step HTTP/1.1\r\n"+unfinished, "{}")
	}, nil, nil},
	{"5,200 bodies of which a byte comes, from eight hosts", func(ctx context.Context, s *server) (string, error) {
		return s.besides(ctx, 5200, 8, "POST /health HTTP/1.1\r\n"+unfinished, "{}")
	}, nil, nil},
	{"12 bodies of which 17 KB of 1 MB come, renewed", func(ctx context.Context, s *server) (string, error) {
		return s.slowBodies(ctx, 17<<10)
	}, nil, nil},
	{"12 bodies of which all but a byte comes, renewed", func(ctx context.Context, s *server) (string, error) {
		return s.slowBodies(ctx, 1_000_000-1)
	}, nil, nil},
	{"80 messages of dates to the judge", func(ctx context.Context, s *server) (string, error) {
		return s.judgeAll(ctx, strings.Repeat("1/2 ", 1000))
	}, nil, nil},
	{"160 messages of dates to customers of workflows", func(ctx context.Context, s *server) (string, error) {
		return s.askAll(ctx, 8, strings.Repeat("1/2 1 March ", 333))
	}, workflows, nil},
	{"1,280 shorter messages of dates to customers of workflows", func(ctx context.Context, s *server) (string, error) {
		return s.askAll(ctx, 64, strings.Repeat("1/2 1 March ", 155))
	}, workflows, nil},
	{"200 sockets that reset workflows without a pause", func(ctx context.Context, s *server) (string, error) {
		return s.keepUpFor(ctx, 200, 2, handshake+manyFrames(finalText, `{"type":"reset","data":{"seed":1}}`))
	}, workflows, nil},
	{"4,800 ledgers of 120 runs of one namespace", openLedgers, runs, nil},
	{"400 sockets without an episode on a pool for runs", func(ctx context.Context, s *server) (string, error) {
		return s.keepUpFor(ctx, 400, 2, handshake)
	}, runs, nil},
	{"32 sockets that don't read, while their server ends", func(ctx context.Context, s *server) (string, error) {
		return s.keepUpFor(ctx, 32, 1, strings.Replace(handshake, "GET /ws ", unread, 1)+manyFrames(finalText,
			`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}`))
	}, pool, endFirstServer},
	{"200 sockets that send pings without a pause", func(ctx context.Context, s *server) (string, error) {
		return s.keepUpFor(ctx, 200, 2, handshake+manyFrames(finalPing, ""))
	}, nil, nil},
	{"200 sockets that send invalid messages without a pause", func(ctx context.Context, s *server) (string, error) {
		return s.keepUpFor(ctx, 200, 2, handshake+manyFrames(finalText, "x"))
	}, nil, nil},
	{"200 sockets that send empty parts without a pause", func(ctx context.Context, s *server) (string, error) {
		return s.keepUpFor(ctx, 200, 2, handshake+encodeFrame(firstText, "x")+manyFrames(middle, ""))
	}, nil, nil},
	{"500 requests for pages with an unfinished header of 1 MB", func(ctx context.Context, s *server) (string, error) {
		return s.stall(ctx, 500, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 950_000), 5*time.Second)
	}, pages, nil},
	{"200 connections that request pages without a pause", func(ctx context.Context, s *server) (string, error) {
		return s.keepUpFor(ctx, 200, 2, strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1<<16))
	}, pages, nil},
	{"3,000 pages that are followed live", func(ctx context.Context, s *server) (string, error) {
		return s.stall(ctx, 3000, "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n", 5*time.Second)
	}, pages, nil},
}

// handshake opens a WebSocket, on which frames may follow.
const handshake = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// unread begins a handshake after which nobody reads.
const unread = "GET /ws?unread "

// manyFrames returns 16 MiB of frames of a kind (see finalText) with a payload of at most
// 125 bytes.
func manyFrames(kind byte, payload string) string {
	one := encodeFrame(kind, payload)
	return strings.Repeat(one, 16<<20/len(one))
}

func encodeFrame(kind byte, payload string) string {
	return string([]byte{kind, 0x80 | byte(len(payload)), 0, 0, 0, 0}) + payload
}

// The kinds of frames: a whole message in one frame, and the beginning and the middle of
// others.
const finalText, finalPing, firstText, middle = 0x81, 0x89, 0x01, 0x00

// unfinished is the rest of a request that sends one byte of its body's hundred.
const unfinished = "Host: x\r\nContent-Length: 100\r\n\r\nx"

// manyMembers returns short members of about that many bytes, each with a comma before it.
func manyMembers(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size-16; i++ {
		fmt.Fprintf(&b, `,"%x":0`, i)
	}
	return b.String()
}

// attacker connects from another address than the clients.
var attacker = attackerAt(0)

// attackerAt connects from one of several addresses.
func attackerAt(n int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n))}, Timeout: 5 * time.Second}
}

func (s *server) connect(ctx context.Context) (*websocket.Conn, error) {
	dialer := websocket.Dialer{NetDialContext: attacker.DialContext}
	conn, response, err := dialer.DialContext(ctx, "ws://"+s.Address+"/ws", nil)
	if err != nil {
		return nil, err
	}
	return conn, response.Body.Close()
}

// sendAll sends the message several times on each of several sockets at a time, after the first
// ones. An answer may have 64 KiB. The attacker gets at least one, and needn't get more: its own
// messages wait for each other, and those that arrive slowly meanwhile are interrupted.
func (s *server) sendAll(ctx context.Context, sockets, times int, message string, first ...string) (string, error) {
	var answered, largest atomic.Int64
	var sending sync.WaitGroup
	for range sockets {
		sending.Go(func() {
			conn, err := s.connect(ctx)
			if err != nil {
				return
			}
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			for _, message := range append(first, slices.Repeat([]string{message}, times)...) {
				if conn.WriteMessage(websocket.TextMessage, []byte(message)) != nil {
					return
				}
				_, answer, err := conn.ReadMessage()
				if err != nil {
					return
				}
				answered.Add(1)
				for n := largest.Load(); int64(len(answer)) > n && !largest.CompareAndSwap(n, int64(len(answer))); {
					n = largest.Load()
				}
			}
		})
	}
	sending.Wait()
	result := fmt.Sprintf("%d of its %d messages answered, with %d bytes at most", answered.Load(),
		sockets*(len(first)+times), largest.Load())
	if answered.Load() == 0 || largest.Load() > 64<<10 {
		return result, errors.New("the answers: " + result)
	}
	return result, nil
}

// post sends requests, some of them at a time, and counts the statuses of the answers. It calls
// each, if not nil, with the header of an answer.
func (s *server) post(ctx context.Context, parallel, requests int, path, body string,
	each func(http.Header)) (string, error) {
	transport := &http.Transport{DialContext: attacker.DialContext, MaxIdleConnsPerHost: parallel}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	statuses := map[int]int{}
	var next atomic.Int64
	var posting sync.WaitGroup
	for range parallel {
		posting.Go(func() {
			for next.Add(1) <= int64(requests) && ctx.Err() == nil {
				status, header := postBody(ctx, transport, "http://"+s.Address+path, body)
				mu.Lock()
				statuses[status]++
				if each != nil && status == http.StatusOK {
					each(header)
				}
				mu.Unlock()
			}
		})
	}
	posting.Wait()
	return fmt.Sprint(statuses), nil
}

// postBody returns the status of the answer, 0 for none.
func postBody(ctx context.Context, transport http.RoundTripper, url, body string) (int, http.Header) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header
}

// stall opens connections, sends the beginning of a request on each, and waits.
func (s *server) stall(ctx context.Context, connections int, beginning string, wait time.Duration) (string, error) {
	var mu sync.Mutex
	var open []net.Conn
	var next, refused atomic.Int64
	var opening sync.WaitGroup
	for range 32 {
		opening.Go(func() {
			for next.Add(1) <= int64(connections) && ctx.Err() == nil {
				conn, err := attacker.DialContext(ctx, "tcp", s.Address)
				if err != nil {
					refused.Add(1)
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				_, _ = io.WriteString(conn, beginning)
				mu.Lock()
				open = append(open, conn)
				mu.Unlock()
			}
		})
	}
	opening.Wait()
	sleepContext(ctx, wait)
	answers := map[string]int{}
	for _, conn := range open {
		_ = conn.SetDeadline(time.Now().Add(time.Millisecond))
		head := make([]byte, len("HTTP/1.1 408"))
		n, err := io.ReadFull(conn, head)
		switch {
		case err == nil:
			answers[string(bytes.TrimPrefix(head[:n], []byte("HTTP/1.1 ")))]++
		case errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset"):
			answers["closed"]++
		default:
			answers["open"]++
		}
		_ = conn.Close()
	}
	return fmt.Sprintf("%v, %d refused", answers, refused.Load()), nil
}

// openMCPSessions opens sessions without a connection. Another client must get a session, and the
// attacker at most its share.
func openMCPSessions(ctx context.Context, s *server) (string, error) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"abuse","version":"1"}}}`
	var ids []string
	result, err := s.post(ctx, 32, 3000, "/mcp", body, func(h http.Header) {
		if id := h.Get("Mcp-Session-Id"); id != "" {
			ids = append(ids, id)
		}
	})
	now, countErr := s.readMetrics(ctx)
	_, others := s.playFor(ctx, time.Second)
	if now.sessions > maxSessions*clientShare/100+clients {
		err = errors.Join(err, fmt.Errorf("one client has %d of %d sessions", now.sessions, maxSessions))
	}
	for _, id := range ids {
		request, requestErr := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+s.Address+"/mcp",
			http.NoBody)
		if requestErr != nil {
			return result, requestErr
		}
		request.Header.Set("Mcp-Session-Id", id)
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}
	return fmt.Sprintf("%d sessions at a time", now.sessions), errors.Join(err, countErr, others)
}

// judgeAll lets the judge read ten messages of the text in each of eight episodes.
func (s *server) judgeAll(ctx context.Context, text string) (string, error) {
	began := time.Now()
	var judged atomic.Int64
	var playing sync.WaitGroup
	for range 8 {
		playing.Go(func() {
			conn, err := s.connect(ctx)
			if err != nil {
				return
			}
			defer conn.Close()
			messages := []string{`{"type":"reset","data":{"task":"ticket-resolve","seed":1}}`}
			for range 9 {
				messages = append(messages, `{"type":"step","data":{"action_type":"respond","message":"`+text+`"}}`)
			}
			messages = append(messages, `{"type":"step","data":{"action_type":"resolve","message":"`+text+`"}}`)
			for _, message := range messages {
				if conn.WriteMessage(websocket.TextMessage, []byte(message)) != nil {
					return
				}
				if _, _, err := conn.ReadMessage(); err != nil {
					return
				}
			}
			judged.Add(1)
		})
	}
	playing.Wait()
	result := fmt.Sprintf("%d episodes judged in %v", judged.Load(), time.Since(began).Round(time.Millisecond))
	if judged.Load() == 0 {
		return result, errors.New("no episode was judged")
	}
	return result, nil
}

// dripTime is how long unfinished requests are kept up besides others' requests, and renewal the
// pause before one that the server has closed is begun again.
const (
	dripTime = 15 * time.Second
	renewal  = time.Second
)

// keepUp keeps up connections from several addresses, on each of which the beginning of a request
// was sent, until the context ends. It returns how many were begun and how many failed.
func (s *server) keepUp(ctx context.Context, connections, addresses int, beginning string) (begun, failed int64) {
	var opened, refused atomic.Int64
	var dripping sync.WaitGroup
	for i := range connections {
		dripping.Go(func() {
			for from := attackerAt(i % addresses); ctx.Err() == nil; sleepContext(ctx, renewal) {
				conn, err := from.DialContext(ctx, "tcp", s.Address)
				if err != nil {
					refused.Add(1)
					continue
				}
				opened.Add(1)
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				sent := make(chan struct{})
				go func() { defer close(sent); _, _ = io.WriteString(conn, beginning) }()
				if !strings.HasPrefix(beginning, unread) {
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}
				<-sent
				stop()
				_ = conn.Close()
			}
		})
	}
	dripping.Wait()
	return opened.Load(), refused.Load()
}

// keepUpFor keeps up connections for a time.
func (s *server) keepUpFor(ctx context.Context, connections, addresses int, beginning string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dripTime)
	defer cancel()
	begun, refused := s.keepUp(ctx, connections, addresses, beginning)
	return fmt.Sprintf("%d begun, %d refused", begun, refused), nil
}

// besides keeps up unfinished requests, during which another client sends a hundred requests with a
// body, each on a connection of its own. All must be answered.
func (s *server) besides(ctx context.Context, connections, addresses int, beginning, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTime)
	defer cancel()
	var begun int64
	var dripping sync.WaitGroup
	dripping.Go(func() { begun, _ = s.keepUp(ctx, connections, addresses, beginning) })
	sleepContext(ctx, dripTime/3) // until all are there
	statuses, longest := map[int]int{}, time.Duration(0)
	for range 100 {
		sleepContext(ctx, dripTime/150)
		began := time.Now()
		status, _ := postBody(ctx, &http.Transport{DisableKeepAlives: true}, "http://"+s.Address+"/reset", body)
		statuses[status]++
		longest = max(longest, time.Since(began))
	}
	cancel()
	dripping.Wait()
	result := fmt.Sprintf("%d begun; others' requests %v, at most %v", begun, statuses, longest.Round(time.Millisecond))
	if statuses[http.StatusOK] != 100 {
		return result, errors.New("requests of others were refused: " + result)
	}
	return result, nil
}

// slowBodies opens twelve bodies of 1 MB from two addresses and sends only the first bytes of each,
// while another client sends bodies of 20 KB.
func (s *server) slowBodies(ctx context.Context, sent int) (string, error) {
	return s.besides(ctx, 12, 2, "POST /ticket/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+
		strings.Repeat("x", sent), `{"x":"`+strings.Repeat("x", 20_000)+`"}`)
}

// askAll asks customers of workflows a question in each of several sessions, twenty times.
func (s *server) askAll(ctx context.Context, sessions int, text string) (string, error) {
	const ask = `{"type":"step","data":{"action_type":"ask_customer","payload":{"message":`
	return s.sendAll(ctx, sessions, 20, ask+`"`+text+`"}}}`,
		`{"type":"reset","data":{"task":"address-change","seed":1}}`)
}

// openLedgers ends an episode in each shard of runs of one namespace, and fetches no ledger.
func openLedgers(ctx context.Context, s *server) (string, error) {
	const hostile = 120
	var played, refused atomic.Int64
	var playing sync.WaitGroup
	for i := range hostile {
		r, err := planRun(fmt.Sprint("hostile-", i), "team-b", 1<<20)
		if err != nil {
			return "", err
		}
		playing.Go(func() {
			for shard := range r.plan.Shards {
				if ctx.Err() != nil {
					return
				}
				if r.playShard(ctx, s.Address, shard, func(f func() error) error { return f() }) != nil {
					refused.Add(1)
				} else {
					played.Add(1)
				}
			}
		})
	}
	playing.Wait()
	return fmt.Sprintf("%d shards played, %d refused", played.Load(), refused.Load()), nil
}
