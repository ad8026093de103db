package fairness

import (
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// A connection whose next bytes are there already doesn't keep its processor.
func TestConnectionsTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := TakeTurns(inner)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const sent = 1000
	if _, err := client.Write(make([]byte, sent)); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 1)
	if _, err := io.ReadFull(conn, one); err != nil { // the rest is there, too
		t.Fatal(err)
	}
	var other atomic.Bool
	go other.Store(true)
	reads := 1
	for ; !other.Load() && reads < sent; reads++ {
		if _, err := io.ReadFull(conn, one); err != nil {
			t.Fatal(err)
		}
	}
	if reads > 10 {
		t.Errorf("another goroutine waited for %d reads", reads)
	}
}
