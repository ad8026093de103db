package openenv

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestTokens(t *testing.T) {
	tokens := []string{"first", "second"}
	_, url := serve(t, Config{Tokens: func() []string { return tokens }})
	status := func(path, authorization string) int {
		request, _ := http.NewRequest(http.MethodGet, url+path, nil)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode == http.StatusUnauthorized &&
			(!strings.Contains(string(body), "Authorization: Bearer") ||
				!strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Bearer")) {
			t.Errorf("401 without an explanation: %s %v", body, response.Header)
		}
		return response.StatusCode
	}
	for _, c := range []struct {
		path, authorization string
		want                int
	}{
		{"/health", "", 200}, {"/metadata", "", 401}, {"/metadata", "Bearer first", 200},
		{"/metadata", "bearer second", 200}, {"/state", "", 401},
		{"/metadata", "Bearer third", 401}, {"/metadata", "Bearer ", 401}, {"/metadata", "Bearer", 401},
		{"/metadata", "Basic first", 401},
		{"/metadata", "Basic " + base64.StdEncoding.EncodeToString([]byte("x:first")), 200},
		{"/metadata", "Basic " + base64.StdEncoding.EncodeToString([]byte("second:")), 200},
		{"/metadata", "Basic " + base64.StdEncoding.EncodeToString([]byte("first:third")), 401}, {"/nowhere", "", 401},
	} {
		if got := status(c.path, c.authorization); got != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.authorization, got, c.want)
		}
	}
	_, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http")+"/ws", nil)
	if err == nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a handshake without a token: %v", err)
	}
	_ = response.Body.Close()
	conn, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http")+"/ws",
		http.Header{"Authorization": {"Bearer second"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	defer conn.Close()
	tokens = []string{"", "third"}
	if got := status("/metadata", "Bearer first"); got != 401 {
		t.Errorf("a removed token: %d", got)
	}
	if got := status("/metadata", "Bearer "); got != 401 {
		t.Errorf("an empty line among the tokens admits everyone: %d", got)
	}
	if got := (wire.NewPeer(t, conn)).Code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("an open session whose token was removed: %s", got)
	}
}

func TestClientOf(t *testing.T) {
	open, guarded := newTestServer(t, Config{}), newTestServer(t, Config{Tokens: func() []string { return nil }})
	defer open.Close()
	defer guarded.Close()
	request := func(addr, authorization string) *http.Request {
		return &http.Request{RemoteAddr: addr, Header: http.Header{"Authorization": {authorization}}}
	}
	first, sixth := request("10.0.0.1:5", "Bearer a"), request("[2001:db8:0:1::5]:5", "Bearer a")
	for addr, same := range map[string]bool{"[2001:db8:0:1:ffff::1]:5": true, "[2001:db8:0:2::5]:5": false,
		"[::ffff:10.0.0.1]:5": false} {
		if got := open.clientOf(sixth) == open.clientOf(request(addr, "Bearer a")); got != same {
			t.Errorf("%s is the client of %s: %v", addr, sixth.RemoteAddr, got)
		}
	}
	if open.clientOf(request("[::ffff:10.0.0.1]:5", "")) == open.clientOf(request("[::ffff:10.0.0.2]:5", "")) {
		t.Error("all IPv4 clients of an IPv6 socket are one")
	}
	for name, c := range map[string]struct {
		server *Server
		other  *http.Request
		same   bool
	}{
		"port":                    {open, request("10.0.0.1:6", "Bearer a"), true},
		"address":                 {open, request("10.0.0.2:5", "Bearer a"), false},
		"token":                   {guarded, request("10.0.0.1:5", "Bearer b"), false},
		"token on an open server": {open, request("10.0.0.1:5", "Bearer b"), true},
	} {
		if got := c.server.clientOf(first) == c.server.clientOf(c.other); got != c.same {
			t.Errorf("another %s: the same client is %v, want %v", name, got, c.same)
		}
	}
	if strings.Contains(guarded.clientOf(request("10.0.0.1:5", "Bearer secret")), "secret") {
		t.Error("the token is stored")
	}
}

func TestPages(t *testing.T) {
	_, url := serve(t, Config{})
	for _, path := range []string{"/docs", "/redoc"} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		page := string(body)
		for _, want := range []string{"/reset", "/{env_name}/task_range", "openapi.json", "Says a text."} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
		if strings.Contains(page, "http://") || strings.Contains(page, "https://") ||
			strings.Contains(page, "<script") {
			t.Errorf("%s loads something", path)
		}
		if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK ||
			!strings.HasPrefix(got, "text/html") {
			t.Errorf("%s: %s %s", path, response.Status, got)
		}
	}
}
