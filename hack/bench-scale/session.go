package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// patience is how long a session tries to connect again.
	patience = time.Minute
	// retryAfter is the time between two tries.
	retryAfter = time.Second
	// answerTimeout bounds the wait for an answer.
	answerTimeout = time.Minute
)

// playedSession is one session, with the connection that it has at the time. One goroutine always
// reads, so that pings are answered and the end of the session is noticed during a pause; a timer
// sends.
type playedSession struct {
	player *player
	seed   int64 // of the next episode
	server string
	conn   atomic.Pointer[websocket.Conn]
	timer  *time.Timer
	// first is the message that waits for the order to go on, nil if none does.
	first atomic.Pointer[pending]
	// sent is the time in nanoseconds of the message that isn't answered yet.
	sent atomic.Int64
	// at is the number of answered messages of the episode, 0 between episodes.
	at int
}

// connect connects to a server and resets.
func (s *playedSession) connect(ctx context.Context) error {
	p := s.player
	p.dialing <- struct{}{}
	defer func() { <-p.dialing }()
	s.server = p.place()
	conn, response, err := p.dialer.DialContext(ctx, "ws://"+s.server+"/ws", nil) //nolint:bodyclose // needs no closing
	if err != nil {
		p.leave(s.server)
		p.count(func(t *tally) { t.Refused++ })
		return fmt.Errorf("connecting: %s%w", formatStatus(response), err)
	}
	s.conn.Store(conn)
	s.at = 0
	_ = conn.SetReadDeadline(time.Now().Add(answerTimeout))
	s.sendNow(conn, s.message())
	if _, err := s.receive(); err != nil {
		s.drop()
		p.count(func(t *tally) { t.Refused++ })
		return err
	}
	s.at = 1
	return nil
}

func formatStatus(response *http.Response) string {
	if response == nil {
		return ""
	}
	return fmt.Sprintf("status %d: ", response.StatusCode)
}

func (s *playedSession) drop() {
	_ = s.conn.Load().Close()
	s.player.leave(s.server)
}

// The messages after the reset, which all sessions share.
var stepMessages = [][]byte{1: stepMessage(search), 2: stepMessage(classify)}

func stepMessage(action json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"type":"step","data":%s}`, action)
}

// message returns the next message of the session.
func (s *playedSession) message() []byte {
	if s.at > 0 {
		return stepMessages[s.at]
	}
	reset := fmt.Appendf(nil, `{"type":"reset","data":{"seed":%d,"task":"ticket-classify"}}`, s.seed)
	s.seed += int64(s.player.Sessions)
	return reset
}

// sendNow sends a message. An error also ends the reading.
func (s *playedSession) sendNow(conn *websocket.Conn, message []byte) {
	s.sent.Store(time.Now().UnixNano())
	if conn.WriteMessage(websocket.TextMessage, message) != nil {
		_ = conn.Close()
	}
}

// pending is a message for a connection.
type pending struct {
	conn    *websocket.Conn
	message []byte
}

// begin sends the first message that waits, if one does, after the delay. It may be called at any
// time.
func (s *playedSession) begin(delay time.Duration) {
	if next := s.first.Swap(nil); next != nil {
		time.AfterFunc(delay, func() { s.sendNow(next.conn, next.message) })
	}
}

// sendAfter sends the next message after the pause.
func (s *playedSession) sendAfter(delay time.Duration) {
	conn, message := s.conn.Load(), s.message()
	if !isClosed(s.player.started) {
		_ = conn.SetReadDeadline(time.Time{})
		s.first.Store(&pending{conn, message})
		if isClosed(s.player.started) {
			s.begin(delay)
		}
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(delay + answerTimeout))
	s.timer = time.AfterFunc(delay, func() { s.sendNow(conn, message) })
}

// cancel takes back the message that isn't sent yet.
func (s *playedSession) cancel() {
	s.first.Store(nil)
	if s.timer != nil {
		s.timer.Stop()
	}
}

// receive reads an answer. It reports whether the episode is over.
func (s *playedSession) receive() (bool, error) {
	_, answer, err := s.conn.Load().ReadMessage()
	if err != nil {
		return false, fmt.Errorf("reading an answer: %w", err)
	}
	if bytes.Contains(answer[:min(len(answer), 40)], []byte(`"error"`)) {
		return false, fmt.Errorf("answered %.200s", answer)
	}
	return bytes.Contains(answer, []byte(`"done":true`)), nil
}

// run plays episodes until the order to stop.
func (s *playedSession) run(ctx context.Context) {
	p := s.player
	defer p.open.Add(-1)
	s.sendAfter(0)
	for {
		done, err := s.receive()
		if err == nil {
			p.answered(time.Since(time.Unix(0, s.sent.Load())))
			s.advance(done)
		} else if isClosed(p.stopped) || !s.recover(ctx, err) {
			s.cancel()
			return
		}
		if s.at == 0 {
			s.sendAfter(episodePause(p.Pause))
		} else {
			s.sendAfter(p.Pause)
		}
	}
}

// answered counts an answer and its latency.
func (p *player) answered(took time.Duration) {
	p.steps.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.latency.RecordValue(min(took.Microseconds(), p.latency.HighestTrackableValue()))
}

// advance counts an answer of the episode.
func (s *playedSession) advance(done bool) {
	if s.at++; s.at < len(episodeMessages) {
		return
	}
	s.at = 0
	s.player.count(func(t *tally) {
		if done {
			t.Episodes++
		} else {
			t.LostEpisodes++
		}
	})
}

// recover connects to another server after the connection has ended. It reports whether the
// session goes on.
func (s *playedSession) recover(ctx context.Context, cause error) bool {
	p := s.player
	s.cancel()
	s.drop()
	// A reset that was on its way has begun nothing.
	lost := s.at > 0
	if lost {
		p.count(func(t *tally) { t.LostEpisodes++ })
		p.note(cause)
	}
	for until := time.Now().Add(patience); ; sleepContext(ctx, retryAfter) {
		err := s.connect(ctx)
		switch {
		case err == nil:
			p.count(func(t *tally) {
				if !lost {
					t.Moved++
				}
			})
			return true
		case ctx.Err() != nil || errors.Is(err, context.Canceled):
			return false
		case time.Now().After(until):
			p.note(err)
			p.count(func(t *tally) { t.LostSessions++ })
			return false
		}
	}
}

func sleepContext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
