package mesh

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// relayBuffer is small because each relay holds two of them, mostly idle.
	relayBuffer      = 4096
	handshakeTimeout = 5 * time.Second
	// closeTimeout bounds the writing of the answer to a handshake, writeTimeout of a message.
	closeTimeout = 5 * time.Second
	writeTimeout = 2 * time.Minute
	// relayLinger is how long one direction may continue after the other has ended.
	relayLinger = time.Second
)

// forwardSocket forwards the handshake of a WebSocket and relays both directions.
func (m *Mesh) forwardSocket(w http.ResponseWriter, r *http.Request, t target, peer string) error {
	giveBack, ok := m.relayedOf.TryTake(fairness.ClientAt(m.HostOf(r)))
	if !ok {
		return m.refuseRelay(w, t)
	}
	if !m.relays.TryAcquire(1) {
		giveBack()
		return m.refuseRelay(w, t)
	}
	release := func() { m.relays.Release(1); giveBack() }
	far, response, err := m.shakeHands(r, peer)
	if err != nil {
		release()
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer release()
		defer far.Close()
		return copyResponse(w, response)
	}
	near, err := takeOver(w, response)
	if err != nil {
		_ = far.Close()
		release()
		return fmt.Errorf("answering the client's handshake: %w", err)
	}
	if !m.host.Spawn(func() {
		defer release()
		defer m.keepRelay(t, response, peer)()
		m.copyBothWays(near, far)
	}) {
		_, _ = near.Close(), far.Close()
		release()
	}
	return nil
}

// keepRelay records the session of a relayed socket until the returned function is called.
func (m *Mesh) keepRelay(t target, response *http.Response, peer string) (forget func()) {
	id := cmp.Or(t.session, response.Header.Get(protocol.SessionHeader))
	m.relaying.Store(id, peer)
	return func() { m.relaying.Delete(id) }
}

// refuseRelay answers a client when too many sockets are relayed. This server may open a new
// session.
func (m *Mesh) refuseRelay(w http.ResponseWriter, t target) error {
	if t.opens {
		return errDeclined
	}
	w.Header().Set("Retry-After", "1")
	protocol.WriteDetail(w, http.StatusServiceUnavailable,
		"this server forwards no more connections: try again to reach another one")
	return nil
}

// shakeHands forwards the handshake. After an error the client has no answer.
func (m *Mesh) shakeHands(r *http.Request, peer string) (net.Conn, *http.Response, error) {
	conn, err := m.dialer.DialContext(r.Context(), "tcp", peer)
	if err != nil {
		return nil, nil, errors.Join(errUnreachable, err)
	}
	out := r.Clone(r.Context())
	m.addressRequest(out, r, peer)
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	reader := bufio.NewReaderSize(conn, relayBuffer)
	err = out.Write(conn)
	var response *http.Response
	if err == nil {
		response, err = http.ReadResponse(reader, out)
	}
	if err != nil {
		return nil, nil, errors.Join(errUnreachable, err, conn.Close())
	}
	if response.Header.Get(fullHeader) != "" {
		return nil, nil, errors.Join(errDeclined, response.Body.Close(), conn.Close())
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		conn = newConn(conn, reader)
		err = conn.SetDeadline(time.Time{})
	}
	return conn, response, err
}

// copyResponse answers with the peer's refusal.
func copyResponse(w http.ResponseWriter, response *http.Response) error {
	defer response.Body.Close()
	for name, values := range response.Header {
		if name != "Connection" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(response.StatusCode)
	_, err := io.Copy(w, response.Body)
	return err
}

// takeOver answers the client's handshake as the peer did, and hijacks the connection.
func takeOver(w http.ResponseWriter, response *http.Response) (net.Conn, error) {
	conn, buffers, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	response.Body = nil
	_ = conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	if err := response.Write(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return newConn(conn, buffers.Reader), nil
}

// readAhead is a connection with bytes that have been read from it before.
type readAhead struct {
	net.Conn
	head []byte
}

// newConn keeps the reader's buffered bytes, not the reader.
func newConn(conn net.Conn, reader *bufio.Reader) *readAhead {
	ahead, _ := reader.Peek(reader.Buffered())
	return &readAhead{Conn: conn, head: bytes.Clone(ahead)}
}

// Read returns the bytes that were read ahead first.
func (w *readAhead) Read(b []byte) (int, error) {
	if len(w.head) == 0 {
		return w.Conn.Read(b)
	}
	n := copy(b, w.head)
	w.head = w.head[n:]
	return n, nil
}

// copyBothWays copies bytes both ways until both ends have ended, one has failed, or the server is
// closed.
func (m *Mesh) copyBothWays(client, peer net.Conn) {
	closeBoth := sync.OnceFunc(func() { _, _ = client.Close(), peer.Close() })
	defer closeBoth()
	ended := context.AfterFunc(m.host.Context, closeBoth)
	defer func() {
		if !ended() {
			m.host.Cut()
		}
	}()
	m.relayed.Inc()
	defer m.relayed.Dec()
	var outward sync.WaitGroup
	outward.Go(func() { relayStream(peer, client, 0, closeBoth) })
	relayStream(client, peer, protocol.MaxSilence, closeBoth)
	outward.Wait()
}

// relayStream copies bytes until the source ends, and then closes the destination for writing.
// After an error or a silence it closes both.
func relayStream(to, from net.Conn, silence time.Duration, closeBoth func()) {
	err := copyBytes(to, from, silence)
	if half, ok := to.(*readAhead); ok && errors.Is(err, io.EOF) {
		if half, ok := half.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			time.AfterFunc(relayLinger, closeBoth)
			return
		}
	}
	closeBoth()
}

// copyBytes copies bytes and returns the error that ended it.
func copyBytes(to, from net.Conn, silence time.Duration) error {
	buffer := make([]byte, relayBuffer)
	for {
		if silence > 0 {
			_ = from.SetReadDeadline(time.Now().Add(silence))
		}
		n, err := from.Read(buffer)
		if n > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
