package ui

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/play/results"
)

// mayObject reports whether a visitor may write: on this machine, to a site that isn't public.
func (s *site) mayObject(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.IP.IsLoopback() && !s.public && !s.pages.Static
}

// object stores why a person finds the grade of an episode wrong, and shows the episode again. The
// handler of the site refuses forms of other sites.
func (s *site) object(w http.ResponseWriter, r *http.Request) {
	err := s.storeObjection(w, r)
	if err != nil {
		s.serve(func(*http.Request) (shown, error) { return shown{}, err })(w, r)
		return
	}
	path := strings.TrimSuffix(r.URL.EscapedPath(), "/objection")
	http.Redirect(w, r, addQuery(path, r.URL.Query()), http.StatusSeeOther) //nolint:gosec // own path
}

func (s *site) storeObjection(w http.ResponseWriter, r *http.Request) error {
	if !s.mayObject(r) {
		return &statusError{http.StatusForbidden, "Objections are written on the machine that has the store."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, 4*results.MaxObjection)
	if err := r.ParseForm(); err != nil {
		return badRequest("The form can't be read: %v.", err)
	}
	run, e, err := s.requested(r)
	if err != nil {
		return err
	}
	store, err := run.OwnStore(r.Context())
	if err != nil {
		return err
	}
	if store == nil {
		return &statusError{http.StatusForbidden, fmt.Sprintf("Run %s wasn't played by csenv eval into a folder of "+
			"this machine.", run.Name)}
	}
	defer store.Close()
	because := strings.ReplaceAll(strings.ToValidUTF8(r.PostForm.Get("because"), "�"), "\r\n", "\n")
	because = strings.TrimSpace(because)
	if len(because) > results.MaxObjection {
		return badRequest("The text has %d bytes: write at most %d.", len(because), results.MaxObjection)
	}
	return store.WriteObjection(r.Context(), "", results.Objection{Episode: e.Index, Because: because,
		Written: time.Now().UTC().Truncate(time.Second)})
}
