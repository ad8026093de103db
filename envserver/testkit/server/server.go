// Package server starts env servers for tests.
package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// Server is a running env server.
type Server struct {
	*openenv.Server
	// URL is where it serves the protocol, "" if it serves on a PipeNet.
	URL string
	ops http.Handler
}

// New makes a server that serves nothing yet. By default its environment is echo, its key is
// echo.Key, and it logs nothing.
func New(tb testing.TB, cfg openenv.Config) *Server {
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
	s, err := openenv.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &Server{Server: s, ops: s.OpsHandler()}
}

// Start runs a server on the loopback interface until the test ends.
func Start(tb testing.TB, cfg openenv.Config) *Server {
	tb.Helper()
	s := New(tb, cfg)
	h := httptest.NewServer(s.Handler())
	tb.Cleanup(func() {
		s.Close()
		h.Close()
	})
	s.URL = h.URL
	return s
}

// StartPipe runs a server within a synctest bubble. The returned function ends it.
func StartPipe(tb testing.TB, cfg openenv.Config) (*Server, *wire.PipeNet, func()) {
	tb.Helper()
	s := New(tb, cfg)
	network := wire.NewPipeNet()
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Hour,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(network) })
	return s, network, func() {
		s.Close()
		_ = h.Close()
		serving.Wait()
	}
}

// Ops sends GET to a path of the operations port.
func (s *Server) Ops(path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, path, http.NoBody) //nolint:noctx // served in the process
	s.ops.ServeHTTP(answer, request)
	return answer
}

// Report returns the answer of /stats.
func (s *Server) Report() score.Report {
	var report score.Report
	if err := json.Unmarshal(s.Ops("/stats").Body.Bytes(), &report); err != nil {
		panic(err) // the server writes it
	}
	return report
}

// Active returns the number of sessions.
func (s *Server) Active() int { return int(s.Report().Sessions.Active) }
