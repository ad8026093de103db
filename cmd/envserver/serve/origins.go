package serve

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// refuseOrigins refuses what pages of other sites ask a developer's server for through the browser:
// they could play its private packs. Programs send no Origin. Pages of this machine, of the
// server's own address and of the allowed origins are served. A name is not an own address, because
// whoever owns it may let it lead here.
func refuseOrigins(next http.Handler, allowed []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin == "" || slices.Contains(allowed, origin) || isOwnOrigin(origin, r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, "this server answers no pages of other sites: start it with --allow-origin to admit one",
			http.StatusForbidden)
	})
}

func isOwnOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	if strings.EqualFold(u.Hostname(), "localhost") {
		return true
	}
	address, err := netip.ParseAddr(u.Hostname())
	if name, _, split := net.SplitHostPort(host); split == nil {
		host = name
	}
	return err == nil && (address.IsLoopback() || strings.Trim(host, "[]") == u.Hostname())
}
