package openenv

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/envserver/web/play"
)

// webPath is the path of the playground, as in the official server.
const webPath = "/web"

// withWeb serves the playground below webPath and redirects browsers there from the root. Its games
// are clients of the server: they take slots, count for their visitor's share and have its token.
// The playground is made at the first request, so that a server starts as fast without visitors.
func (s *Server) withWeb(next http.Handler) http.Handler {
	if !s.cfg.Web {
		return next
	}
	made := sync.OnceValues(s.newWeb)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		browser := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
		switch {
		case path == webPath && r.Method == http.MethodGet, path == "/" && browser && !websocket.IsWebSocketUpgrade(r):
			http.Redirect(w, r, webPath+"/", http.StatusTemporaryRedirect)
		case strings.HasPrefix(path, webPath+"/"):
			web, err := made()
			if err != nil {
				s.log.Error("The playground can't be made", "error", err)
				protocol.WriteDetail(w, http.StatusInternalServerError, "the playground can't be made: see the log")
				return
			}
			web.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// newWeb makes the playground.
func (s *Server) newWeb() (http.Handler, error) {
	games, err := play.New(play.Config{
		Base: webPath, Path: webPath, Closed: s.webClosed(), Log: s.log, Accepts: s.webAccepts(),
		Layout: func(_ *http.Request, title string, main any) page.Page {
			return page.Page{Title: title, Place: "play", Version: s.cfg.Version, Main: main}
		},
		Targets: func(*http.Request) ([]play.Target, error) {
			return []play.Target{{ID: "here", Name: s.cfg.Kind.Name(), Note: s.cfg.Kind.Description(),
				Open: func(r *http.Request, token string) (play.Server, error) {
					return play.Server{URL: "http://" + s.cfg.Kind.Name(), Options: client.Options{Token: token,
						Silence: protocol.MaxSilence, Connect: s.Connect(r.RemoteAddr)}}, nil
				}}}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	if !s.spawn(func() {
		<-s.ctx.Done()
		games.Close()
	}) {
		return nil, errors.New("the server is closed")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+webPath+"/static/{digest}/{name}", page.ServeStatic)
	mux.Handle("/", games)
	return memory.LimitBodies(s.medium, s.clientOf, page.ProtectHandler(mux)), nil
}

// webClosed returns why nobody can play, "" if everybody can.
func (s *Server) webClosed() string {
	switch {
	case s.cfg.Mode == Production:
		return "This server runs in production mode: it serves tools to agents, and nobody can begin an episode."
	case s.cfg.RunsOnly:
		return "This server plays only the episodes of evaluation runs (--runs-only): play on a pool that is open, " +
			"or on your own machine with `csenv serve --web`."
	}
	return ""
}

func (s *Server) webAccepts() func(string) bool {
	if s.cfg.Tokens == nil {
		return nil
	}
	return s.acceptsToken
}
