package process

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upper starts a server that answers with its name after the client has closed its sending half of
// the connection.
func upper(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				said, _ := io.ReadAll(conn)
				_, _ = io.WriteString(conn, name+" heard "+string(said))
			}()
		}
	}()
	return l.Addr().String()
}

// say sends a text and returns the answer, or "" if the connection ended without one.
func say(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func takeTurns(targets ...string) func() string {
	turn := 0
	return func() string {
		turn++
		return targets[(turn-1)%len(targets)]
	}
}

func TestFrontTakesTurns(t *testing.T) {
	f, err := NewFront(t.Context(), takeTurns(upper(t, "a"), upper(t, "b"), upper(t, "c")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 4 {
		got = append(got, say(t, f.Address(), "hi"))
	}
	if diff := cmp.Diff([]string{"a heard hi", "b heard hi", "c heard hi", "a heard hi"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.running.Wait()
}

// If one target stops, only its connections fail. Cancelling the context closes the open ones.
func TestFrontEnds(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := NewFront(ctx, takeTurns(gone.Addr().String(), upper(t, "b")))
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, f.Address(), "hi"); got != "" {
		t.Errorf("a stopped server answered %q", got)
	}
	if got := say(t, f.Address(), "hi"); got != "b heard hi" {
		t.Errorf("the next server answered %q", got)
	}
	idle, err := net.Dial("tcp", f.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	open, err := net.Dial("tcp", f.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	cancel()
	_ = f.Close()
	f.running.Wait()
}
