package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorilla/websocket"
)

// session is one connection. Its buffers are reused for every message.
type session struct {
	conn   *websocket.Conn
	answer bytes.Buffer
	reset  []byte
	// episode is the number of the session's next episode in the load.
	episode int64
}

// answerError is an error message from the server.
type answerError struct{ code, message string }

func (e *answerError) Error() string { return "answered " + e.code + ": " + e.message }

// exchange sends a message and reads its answer. It reports whether the episode is over.
func (s *session) exchange(message []byte) (done bool, err error) {
	if err := s.conn.WriteMessage(websocket.TextMessage, message); err != nil {
		return false, fmt.Errorf("write: %w", err)
	}
	_, r, err := s.conn.NextReader()
	if err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	s.answer.Reset()
	if _, err := s.answer.ReadFrom(r); err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	return s.over()
}

// over searches for the type and "done" in the answer without decoding it. A false match only
// causes a reset.
func (s *session) over() (bool, error) {
	answer := s.answer.Bytes()
	if bytes.Contains(answer[:min(len(answer), 40)], []byte(`"error"`)) {
		var e struct {
			Data struct{ Code, Message string }
		}
		if err := json.Unmarshal(answer, &e); err != nil {
			return false, fmt.Errorf("decoding an error: %w", err)
		}
		return false, &answerError{e.Data.Code, e.Data.Message}
	}
	return bytes.Contains(answer, []byte(`"done":true`)) || bytes.Contains(answer, []byte(`"done": true`)), nil
}

const (
	// closeTimeout bounds the wait for all close frames, abortTimeout the wait of a cancelled load.
	closeTimeout = 15 * time.Second
	abortTimeout = time.Second
)
