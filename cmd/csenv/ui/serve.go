package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/share"
)

const (
	headerTimeout = 10 * time.Second
	// bodyTimeout bounds the reading of a request, whose bodies are small forms.
	bodyTimeout = 30 * time.Second
	idleTimeout = 2 * time.Minute
	stopTimeout = 2 * time.Second
	// maxHeader bounds the header of a request, in bytes, and maxConnections the connections, on
	// each of which a page may be followed live.
	maxHeader      = 16 << 10
	maxConnections = 1024
)

// servePages serves until the context ends. At a loopback address it answers only requests to this
// machine, so that the page of another site, whose name may resolve to this machine, reads nothing.
func servePages(ctx context.Context, address string, handler http.Handler, started func(url string)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another program serves at %s: stop it, or choose another address with --listen, for "+
			"example --listen localhost:0", address)
	case err != nil:
		return fmt.Errorf("serving the pages: %w: choose another address with --listen", err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		handler = forThisMachine(handler)
	}
	server := newHTTPServer(ctx, handler, maxConnections)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(share.TakeTurns(listener)) }()
	started(urlOf(listener.Addr()))
	select {
	case err := <-ended:
		return fmt.Errorf("serving the pages: %w", err)
	case <-ctx.Done():
	}
	// Streams of live updates end with the context.
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stopping: %w", err)
	}
	return nil
}

// newHTTPServer bounds what one visitor occupies. Its requests end with the context.
func newHTTPServer(ctx context.Context, handler http.Handler, connections int) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	share.BoundConnections(server, connections)
	return server
}

// urlOf is the URL of the pages for a browser on this machine.
func urlOf(address net.Addr) string {
	at, err := netip.ParseAddrPort(address.String())
	if err != nil || !at.Addr().Unmap().IsUnspecified() {
		return "http://" + address.String() + "/"
	}
	return fmt.Sprintf("http://localhost:%d/", at.Port())
}

// forThisMachine refuses requests whose Host isn't this machine.
func forThisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if address, err := netip.ParseAddr(host); !strings.EqualFold(host, "localhost") &&
			(err != nil || !address.IsLoopback()) {
			http.Error(w, "csenv ui serves this machine only: open it as localhost, or let it listen at another "+
				"address with --listen.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// findBrowser returns the command that opens a URL in the browser, nil if nobody would see it:
// output isn't a terminal, or the session has no display.
func findBrowser(output any, url string) []string {
	if !view.IsTerminal(output) || os.Getenv("SSH_CONNECTION") != "" {
		return nil
	}
	switch runtime.GOOS {
	case "darwin":
		return []string{"open", url}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	return []string{"xdg-open", url}
}

// openBrowser opens the browser if there is one. The printed URL serves where that fails.
func openBrowser(ctx context.Context, output any, url string) {
	command := findBrowser(output, url)
	if command == nil {
		return
	}
	opener := exec.CommandContext(ctx, command[0], command[1:]...)
	if opener.Start() == nil {
		go func() { _ = opener.Wait() }()
	}
}
