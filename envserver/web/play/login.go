package play

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	cookieName = "csenv-play"
	// loginTime is how long a login lasts, and maxLogins how many there are at a time.
	loginTime = 12 * time.Hour
	maxLogins = 1024
)

// logins maps the cookies of browsers, which can't send a bearer token, to tokens. It forgets them
// with the process.
type logins struct {
	mu   sync.Mutex
	byID map[string]login
}

type login struct {
	token string
	until time.Time
}

func newLogins() *logins { return &logins{byID: map[string]login{}} }

// add returns the cookie's value of a new login. If there are too many, the one that ends first
// gives way.
func (l *logins) add(token string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byID) >= maxLogins {
		first, until := "", time.Time{}
		for id, known := range l.byID {
			if first == "" || known.until.Before(until) {
				first, until = id, known.until
			}
		}
		delete(l.byID, first)
	}
	id := rand.Text()
	l.byID[id] = login{token, time.Now().Add(loginTime)}
	return id
}

// token returns the token of a request's cookie, "" for none.
func (l *logins) token(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byID[cookie.Value]
	if time.Now().After(known.until) {
		delete(l.byID, cookie.Value)
		return ""
	}
	return known.token
}

func (l *logins) remove(r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.byID, cookie.Value)
	}
}

// entered asks visitors without a valid token to enter one. The token is checked at each request,
// because it may have been revoked.
func (p *Playground) entered(next func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p.cfg.Accepts == nil {
			next(w, r, "")
			return
		}
		if token := p.logins.token(r); token != "" && p.cfg.Accepts(token) {
			next(w, r, token)
			return
		}
		p.askToken(w, r, "This server needs a token. Ask who runs it for one.")
	}
}

func (p *Playground) askToken(w http.ResponseWriter, r *http.Request, text string) {
	p.render(w, r, http.StatusUnauthorized, "play-message", "Enter a token",
		message{Path: p.cfg.Path, Title: "Enter a token", Text: text, Login: true})
}

// login keeps the token of the form.
func (p *Playground) login(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostForm.Get("token"))
	if p.cfg.Accepts != nil {
		if token == "" || !p.cfg.Accepts(token) {
			p.askToken(w, r, "This token is not one of the server's: check it and enter it again.")
			return
		}
		p.setCookie(w, p.logins.add(token), int(loginTime.Seconds()))
	}
	http.Redirect(w, r, p.cfg.Path+"/", http.StatusSeeOther)
}

func (p *Playground) logout(w http.ResponseWriter, r *http.Request, _ string) {
	p.logins.remove(r)
	p.setCookie(w, "", -1)
	http.Redirect(w, r, p.cfg.Path+"/", http.StatusSeeOther)
}

func (p *Playground) setCookie(w http.ResponseWriter, value string, seconds int) {
	//nolint:gosec // the server has no TLS, and browsers would drop a Secure cookie
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: value, Path: p.cfg.Path + "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteStrictMode})
}
