package openenv

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// orsSend sends a request of an OpenReward client with the session's id, "" for none.
func orsSend(t *testing.T, client *http.Client, method, url, id, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(protocol.SessionHeader, id)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// orsOpen opens a session by /create_session and returns its id.
func orsOpen(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	status, answer := orsSend(t, client, http.MethodPost, url+"/create_session", "", "{}")
	_, id, ok := strings.Cut(strings.TrimSuffix(answer, "\n\nevent: end\ndata: \n\n"), "event: task_id\ndata: ")
	if status != http.StatusOK || !ok || id == "" || strings.ContainsAny(id, "\n ") {
		t.Fatalf("/create_session: %d %q", status, answer)
	}
	return id
}

// An OpenReward session is used through any server of a pool, and a full server passes a new one
// on.
func TestORSSessionsOfAPool(t *testing.T) {
	members := servePool(t, Config{MaxSessions: 1}, Config{MaxSessions: 1})
	client := http.DefaultClient
	first, second := orsOpen(t, client, members[0].url), orsOpen(t, client, members[0].url)
	if members[0].sessions.countActive() != 1 || members[1].sessions.countActive() != 1 {
		t.Fatal("the second session was not passed on")
	}
	if status, answer := orsSend(t, client, http.MethodPost, members[1].url+"/create_session", "", "{}"); status !=
		http.StatusServiceUnavailable || !strings.Contains(answer, "1/1 sessions") {
		t.Errorf("a session beyond the pool's capacity: %d %s", status, answer)
	}
	for _, id := range []string{first, second} {
		for i, m := range members {
			for _, c := range []struct{ method, path, body, want string }{
				{http.MethodPost, "/create", `{"split":"train","index":1}`, id},
				{http.MethodPost, "/ping", "", "ok"},
				{http.MethodGet, "/prompt", "", `{\"text\":\"hello\",\"seed\":0}`},
				{http.MethodPost, "/talk/call", `{"name":"say","input":{"text":"hi","reward":200}}`, `"reward":0.2`},
			} {
				if status, answer := orsSend(t, client, c.method, m.url+c.path, id, c.body); status != http.StatusOK ||
					!strings.Contains(answer, c.want) {
					t.Errorf("server %d: %s: %d %s", i, c.path, status, answer)
				}
			}
		}
		for range 2 {
			if status, _ := orsSend(t, client, http.MethodPost, members[1].url+"/delete", id, ""); status != http.StatusOK {
				t.Errorf("/delete: %d", status)
			}
		}
	}
	if members[0].sessions.countActive()+members[1].sessions.countActive() != 0 {
		t.Error("deleted sessions have slots")
	}
}

// A session lasts while its client pings, and its slot is free some time after the last ping.
func TestORSPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, network, end := servePipe(t, Config{IdleTimeout: time.Hour})
		defer end()
		client := &http.Client{Transport: &http.Transport{DialContext: network.Dial}}
		id := orsOpen(t, client, "http://pipe")
		if status, answer := orsSend(t, client, http.MethodPost, "http://pipe/create", id,
			`{"task_spec":{"scenario":"E01"}}`); status != http.StatusOK {
			t.Fatalf("/create: %d %s", status, answer)
		}
		for range 30 {
			time.Sleep(pingTimeout / 2) //nolint:forbidigo // the time of a synctest bubble
			if status, _ := orsSend(t, client, http.MethodPost, "http://pipe/ping", id, ""); status != http.StatusOK {
				t.Fatalf("/ping: %d", status)
			}
		}
		time.Sleep(pingTimeout + 2*sweepInterval) //nolint:forbidigo // the time of a synctest bubble
		if n := s.sessions.countActive(); n != 0 {
			t.Errorf("%d sessions of a client that is gone", n)
		}
		status, answer := orsSend(t, client, http.MethodPost, "http://pipe/call", id, `{"name":"say","input":{}}`)
		if status != http.StatusGone || !strings.Contains(answer, "not even a ping, for 15m") {
			t.Errorf("a call after the end: %d %s", status, answer)
		}
		client.CloseIdleConnections()
	})
}

func TestORSIsNotInProduction(t *testing.T) {
	_, url := serve(t, Config{Mode: Production})
	if status, _ := wire.PostBody(t, url+"/create_session", "{}"); status != http.StatusNotFound {
		t.Errorf("/create_session: %d", status)
	}
	if status, body := wire.GetBody(t, url+"/tools"); status != http.StatusOK || !strings.Contains(body, `"say"`) {
		t.Errorf("/tools: %d %s", status, body)
	}
}
