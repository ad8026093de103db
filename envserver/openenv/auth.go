package openenv

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// healthPath needs no token.
const healthPath = "/health"

// clientOf names the client of a request by its address and, on a server with tokens, its token.
// Peers exchange names as JSON, so a name is printable.
func (s *Server) clientOf(r *http.Request) string {
	host := fairness.ClientAt(s.mesh.HostOf(r))
	if s.cfg.Tokens == nil {
		return host
	}
	sum := sha256.Sum256([]byte(tokenOf(r)))
	return host + " " + hex.EncodeToString(sum[:8])
}

// apiKeyHeader has the token of OpenReward's clients.
const apiKeyHeader = "X-Api-Key" //nolint:gosec // a name, not a token

// tokenOf returns the token of a request, "" for none. The password of a URL counts too, for
// clients that can't send headers.
func tokenOf(r *http.Request) string {
	if user, password, ok := r.BasicAuth(); ok {
		return cmp.Or(password, user)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return r.Header.Get(apiKeyHeader)
	}
	return strings.TrimSpace(token)
}

// requireToken answers 401 to requests without one of the server's tokens, and reads no body of
// theirs. GET /health needs no token.
func (s *Server) requireToken(next http.Handler) http.Handler {
	if s.cfg.Tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath && r.Method == http.MethodGet || s.acceptsToken(tokenOf(r)) {
			next.ServeHTTP(w, r)
			return
		}
		memory.WithoutBody(w, r)
		writeUnauthorized(w,
			"this server needs a token: send the header `Authorization: Bearer <token>`, or write the token "+
				"into the URL as its password, http://user:<token>@host")
	})
}

func writeUnauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="csenv"`)
	protocol.WriteDetail(w, http.StatusUnauthorized, detail)
}

// acceptsToken reports whether the token is one of the server's, in constant time.
func (s *Server) acceptsToken(token string) bool {
	given, known := sha256.Sum256([]byte(token)), 0
	for _, t := range s.cfg.Tokens() {
		want := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	return known == 1 && token != ""
}

// asClient lets requests occupy processors as their clients.
func (s *Server) asClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(fairness.NewContext(r.Context(), s.processors, s.clientOf(r))))
	})
}

// hasRoomFor reports whether the client of a request can get a session here.
func (s *Server) hasRoomFor(r *http.Request) bool { return s.sessions.hasRoom(s.clientOf(r)) }
