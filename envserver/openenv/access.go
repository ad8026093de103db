package openenv

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// authorised answers 401 to requests without one of the server's tokens, if it has any. Liveness is
// anybody's to ask.
func (s *Server) authorised(next http.Handler) http.Handler {
	if s.tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" || s.knows(bearerToken(r)) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="csenv"`)
		writeDetail(w, http.StatusUnauthorized, "this server needs a token: send the header `Authorization: Bearer "+
			"<token>`")
	})
}

// knows reports whether the token is one of the server's, in a time that doesn't depend on how far
// they agree.
func (s *Server) knows(token string) bool {
	given, known := sha256.Sum256([]byte(token)), 0
	for _, t := range s.tokens() {
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

// clientOf names whom a session counts for: the remote address, and the token on a server that has
// checked it.
func (s *Server) clientOf(r *http.Request) string {
	host := hostOf(r)
	if s.peers.vouches(r) {
		host = r.Header.Get(clientHeader)
	}
	if s.tokens == nil {
		return host
	}
	sum := sha256.Sum256([]byte(bearerToken(r)))
	return host + " " + string(sum[:8])
}

// hostOf is the address that the request comes from, without the port.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
