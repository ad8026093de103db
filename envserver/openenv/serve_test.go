package openenv

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func newTestServer(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	if cfg.Kind == nil {
		cfg.Kind = echo.Kind{}
	}
	if cfg.LedgerKey == nil {
		cfg.LedgerKey = echo.LedgerKey()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// serve runs a server on the loopback interface for the length of the test.
func serve(tb testing.TB, cfg Config) (*Server, string) {
	tb.Helper()
	s := newTestServer(tb, cfg)
	h := httptest.NewServer(s.Handler())
	tb.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return s, h.URL
}

// servePipe runs a server within a synctest bubble. The returned function ends it.
func servePipe(tb testing.TB, cfg Config) (*Server, *wire.PipeNet, func()) {
	tb.Helper()
	s := newTestServer(tb, cfg)
	network := wire.NewPipeNet()
	h := &http.Server{Handler: s.Handler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(network) })
	return s, network, func() {
		s.Close()
		_ = h.Close()
		serving.Wait()
	}
}
