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
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/fairness"
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
// machine or one of the hosts, so that the page of another site, whose name may resolve to this
// machine, reads nothing.
func servePages(ctx context.Context, address string, hosts []string, handler http.Handler,
	started func(url string)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another program serves at %s: stop it, or choose another address with --listen, for "+
			"example --listen localhost:0", address)
	case err != nil:
		return fmt.Errorf("serving the pages: %w: choose another address with --listen", err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		handler = forHosts(hosts, handler)
	}
	server := newHTTPServer(ctx, handler, maxConnections)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(fairness.TakeTurns(listener)) }()
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

// newHTTPServer bounds what one visitor occupies. Its requests end with the context. Others'
// connections have the processor before each one, because up to a hundred are read at a time.
func newHTTPServer(ctx context.Context, handler http.Handler, connections int) *http.Server {
	inTurn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runtime.Gosched()
		handler.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: inTurn, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	fairness.BoundConnections(server, connections)
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

// forHosts refuses requests whose Host is neither this machine nor one of the names.
func forHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		named := func(name string) bool { return strings.EqualFold(host, name) }
		if address, err := netip.ParseAddr(host); !named("localhost") && !slices.ContainsFunc(names, named) &&
			(err != nil || !address.IsLoopback()) {
			http.Error(w, "csenv ui serves this machine only: open it as localhost, name the host of a proxy with "+
				"--allow-host, or let it listen at another address with --listen.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveBelow serves a site, whose paths begin with /, below a path: it writes that path in front of
// the paths of pages. Requests may have it, or a proxy may have removed it.
func serveBelow(base string, site http.Handler) (http.Handler, error) {
	base = strings.TrimSuffix(base, "/")
	if base == "" {
		return site, nil
	}
	if !regexp.MustCompile(`^(/[0-9A-Za-z._~-]+)+$`).MatchString(base) {
		return nil, fmt.Errorf("--base-path is %q: begin it with /, and write letters, digits, '.', '_', '~' and '-' "+
			"between slashes, as in /csenv", base)
	}
	with := []byte(` $1="` + base + "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = lowered{w, base, with}
		switch {
		case r.URL.Path == base:
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case strings.HasPrefix(r.URL.Path, base+"/"):
			http.StripPrefix(base, site).ServeHTTP(w, r)
		default:
			site.ServeHTTP(w, r)
		}
	}), nil
}

// pathAttribute matches the beginning of the attributes whose values are paths of the site. The
// templates quote attributes and escape the quotes of texts, so that texts don't match.
var pathAttribute = regexp.MustCompile(` (href|src|action|formaction|hx-[a-z:-]+)="/`)

// lowered writes the base in front of the paths of a page, of an update and of a redirect.
type lowered struct {
	http.ResponseWriter
	base string
	with []byte
}

// Unwrap lets http.ResponseController flush.
func (w lowered) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w lowered) WriteHeader(status int) {
	if to := w.Header().Get("Location"); strings.HasPrefix(to, "/") {
		w.Header().Set("Location", w.base+to)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write takes whole pages and updates: no attribute is divided between two calls.
func (w lowered) Write(p []byte) (int, error) {
	body := p
	if kind := w.Header().Get("Content-Type"); strings.HasPrefix(kind, "text/html") || kind == "text/event-stream" {
		body = pathAttribute.ReplaceAll(p, w.with)
	}
	if _, err := w.ResponseWriter.Write(body); err != nil {
		return 0, err //nolint:wrapcheck // the wrapped writer's
	}
	return len(p), nil
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
