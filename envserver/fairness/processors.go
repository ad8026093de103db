package fairness

import (
	"context"
	"net"
	"runtime"
)

// TakeTurns lets the connections of a listener take turns on the processors. One whose next bytes
// are there already would keep its processor for 10 ms, and a thousand of them all others waiting.
func TakeTurns(l net.Listener) net.Listener { return fairListener{l} }

type fairListener struct{ net.Listener }

// Accept implements net.Listener.
func (l fairListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &fairConn{TCPConn: tcp}, nil
	}
	return conn, err
}

type fairConn struct {
	*net.TCPConn
	// full reports whether the last read filled its buffer, so that the next one needn't wait.
	full bool
}

// Read lets others have the processor first, unless it has to wait itself.
func (c *fairConn) Read(b []byte) (int, error) {
	if c.full {
		runtime.Gosched()
	}
	n, err := c.TCPConn.Read(b)
	c.full = n == len(b)
	return n, err
}

// NewProcessors returns a budget for texts that take long to read. All clients together may occupy
// half of the processors with them, and each client one.
func NewProcessors() *Budget { return NewBudget(max(int64(runtime.GOMAXPROCS(0))/2, 1), 1) }

// longReading is the length of a text, in bytes, from which reading it counts as long. It takes
// milliseconds. Nearly every message is shorter.
const longReading = 2000

type contextKey struct{}

// occupant is who reads within a context.
type occupant struct {
	processors *Budget
	client     string
}

// NewContext returns a context within which a client reads on the processors of a budget.
func NewContext(ctx context.Context, processors *Budget, client string) context.Context {
	return context.WithValue(ctx, contextKey{}, occupant{processors, client})
}

// ClientIn is the client of a context, "" for none.
func ClientIn(ctx context.Context) string {
	of, _ := ctx.Value(contextKey{}).(occupant)
	return of.client
}

// OccupyProcessor waits until the client of the context may occupy a processor with reading a text
// of that length, in bytes. It doesn't wait if the text is short or the context has no client. The
// error is the context's.
func OccupyProcessor(ctx context.Context, length int) (release func(), err error) {
	of, ok := ctx.Value(contextKey{}).(occupant)
	if !ok || length < longReading {
		return func() {}, nil
	}
	return of.processors.Take(ctx, of.client)
}
