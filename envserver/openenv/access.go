package openenv

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// authorised answers 401 to requests without one of the server's tokens, if it has any. Liveness is
// anybody's to ask.
func (s *Server) authorised(next http.Handler) http.Handler {
	if s.cfg.Tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" || s.knows(bearerToken(r)) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="csenv"`)
		protocol.WriteDetail(w, http.StatusUnauthorized, "this server needs a token: send the header `Authorization: Bearer "+
			"<token>`")
	})
}

// knows reports whether the token is one of the server's, in a time that doesn't depend on how far
// they agree.
func (s *Server) knows(token string) bool {
	given, known := sha256.Sum256([]byte(token)), 0
	for _, t := range s.cfg.Tokens() {
		want := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	return known == 1 && token != ""
}

func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// clientOf identifies the client that a session counts for: by its address, and by its token on a
// server that has checked it.
func (s *Server) clientOf(r *http.Request) string {
	host := s.mesh.HostOf(r)
	if s.cfg.Tokens == nil {
		return host
	}
	sum := sha256.Sum256([]byte(bearerToken(r)))
	return host + " " + string(sum[:8])
}
