package main

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
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
	// noticing is the pause after an episode in which a draining server surely ends the session: it
	// looks once a second.
	noticing = 1100 * time.Millisecond
)

// stepMessages are the messages of an episode after its reset, which all sessions share.
var stepMessages = [][]byte{
	[]byte(`{"type":"step","data":{"action_type":"search_knowledge_base","query":"refund"}}`),
	[]byte(`{"type":"step","data":{"action_type":"classify","category":"billing","priority":"medium"}}`),
}

// episodeTime is the duration of an episode with the pause after it.
func episodeTime(pause time.Duration) time.Duration {
	return time.Duration(len(stepMessages))*pause + max(pause, noticing)
}

// session is one session. Its goroutine always reads, so that pings are answered and the end of the
// session is noticed during a pause; a timer sends.
type session struct {
	player *Player
	seed   int64 // of the next episode
	server string
	link   atomic.Pointer[link]
	// answered is the number of answered messages of the episode, 0 between episodes.
	answered int
}

// link is a connection. A session has one after the other.
type link struct {
	*websocket.Conn

	// sending is held during a write, which an answer may overtake.
	sending sync.Mutex
	// sent is the time in nanoseconds of the message that isn't answered yet.
	sent atomic.Int64
}

// send sends a message. An error also ends the reading.
func (l *link) send(message []byte) {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.sent.Store(time.Now().UnixNano())
	if l.WriteMessage(websocket.TextMessage, message) != nil {
		_ = l.Close()
	}
}

// connect connects to a server and resets.
func (s *session) connect() error {
	p := s.player
	p.dialing <- struct{}{}
	defer func() { <-p.dialing }()
	s.server = p.place()
	//nolint:bodyclose // needs no closing
	conn, response, err := p.dialer.DialContext(p.ctx, "ws://"+s.server+"/ws", nil)
	if err != nil {
		p.leave(s.server)
		p.count(func(r *Report) { r.Refused++ })
		return fmt.Errorf("connecting: %s%w", formatStatus(response), err)
	}
	l := &link{Conn: conn}
	s.link.Store(l)
	if p.ctx.Err() != nil { // Stop may have closed the connection before this one
		_ = conn.Close()
	}
	s.answered = 0
	_ = l.SetReadDeadline(time.Now().Add(answerTimeout))
	l.send(s.message())
	if _, err := s.receive(); err != nil {
		s.drop()
		p.count(func(r *Report) { r.Refused++ })
		return err
	}
	s.answered = 1
	return l.SetReadDeadline(time.Time{})
}

func formatStatus(response *http.Response) string {
	if response == nil {
		return ""
	}
	return fmt.Sprintf("status %d: ", response.StatusCode)
}

func (s *session) drop() {
	_ = s.link.Load().Close()
	s.player.leave(s.server)
}

// message returns the next message of the session.
func (s *session) message() []byte {
	if s.answered > 0 {
		return stepMessages[s.answered-1]
	}
	reset := fmt.Appendf(nil, `{"type":"reset","data":{"seed":%d,"task":"ticket-classify"}}`, s.seed)
	s.seed += int64(s.player.order.Sessions)
	return reset
}

// sendAfter sends the next message after the pause.
func (s *session) sendAfter(pause time.Duration) {
	l, message := s.link.Load(), s.message()
	_ = l.SetReadDeadline(time.Now().Add(pause + answerTimeout))
	time.AfterFunc(pause, func() { l.send(message) })
}

// receive reads an answer. It reports whether the episode is over.
func (s *session) receive() (done bool, err error) {
	_, answer, err := s.link.Load().ReadMessage()
	if err != nil {
		return false, fmt.Errorf("reading an answer: %w", err)
	}
	if bytes.Contains(answer[:min(len(answer), 40)], []byte(`"error"`)) {
		return false, fmt.Errorf("answered %.200s", answer)
	}
	return bytes.Contains(answer, []byte(`"done":true`)), nil
}

// play plays episodes until the player stops. Begin sends the first message.
func (s *session) play() {
	p := s.player
	defer p.count(func(r *Report) { r.Open-- })
	for {
		done, err := s.receive()
		if err == nil {
			s.advance(done, time.Since(time.Unix(0, s.link.Load().sent.Load())))
		} else if !s.recover(err) {
			return
		}
		pause := p.order.Pause
		if s.answered == 0 {
			pause = max(pause, noticing)
		}
		s.sendAfter(pause)
	}
}

// advance counts an answer.
func (s *session) advance(done bool, took time.Duration) {
	p := s.player
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(p.answers, took)
	if s.answered > 0 {
		p.report.Steps++
	}
	if s.answered++; s.answered <= len(stepMessages) {
		return
	}
	s.answered = 0
	if done {
		p.report.Episodes++
	} else {
		p.report.LostEpisodes++
	}
}

// recover connects to another server after the connection has ended. It reports whether the
// session goes on.
func (s *session) recover(cause error) bool {
	p := s.player
	s.drop()
	select {
	case <-p.ctx.Done():
		return false
	case <-p.started:
	default: // Begin would send its message twice
		p.note(cause)
		p.count(func(r *Report) { r.LostSessions++ })
		return false
	}
	// A reset that was on its way has begun nothing.
	lost := s.answered > 0
	if lost {
		p.count(func(r *Report) { r.LostEpisodes++ })
		p.note(cause)
	}
	for until := time.Now().Add(patience); ; sleepContext(p.ctx, retryAfter) {
		err := s.connect()
		switch {
		case err == nil:
			if !lost {
				p.count(func(r *Report) { r.Moved++ })
			}
			return p.ctx.Err() == nil
		case p.ctx.Err() != nil:
			return false
		case time.Now().After(until):
			p.note(err)
			p.count(func(r *Report) { r.LostSessions++ })
			return false
		}
	}
}
