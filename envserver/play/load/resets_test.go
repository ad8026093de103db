package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
)

func TestResets(t *testing.T) {
	for data, want := range map[string]string{
		"":                                    `{"type":"reset","data":{"seed":12}}`,
		"{}":                                  `{"type":"reset","data":{"seed":12}}`,
		`{"seed":7,"task":"ticket-classify"}`: `{"type":"reset","data":{"seed":12,"task":"ticket-classify"}}`,
	} {
		r, err := newResets(json.RawMessage(data), 10)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(r.message(nil, 2))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", data, diff)
		}
	}
	if _, err := newResets(json.RawMessage(`[]`), 0); err == nil {
		t.Error("a list is taken for the data of a reset")
	}
}

// seeds is a server that notes the seeds of its sessions in the order of their episodes.
type seeds struct {
	mu       sync.Mutex
	sessions [][]int64
}

func (s *seeds) serve(t *testing.T) string {
	t.Helper()
	up := websocket.Upgrader{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		var own []int64
		for {
			var message struct {
				Type string
				Data struct{ Seed int64 }
			}
			if conn.ReadJSON(&message) != nil || message.Type == "close" {
				break
			}
			if message.Type == "reset" {
				own = append(own, message.Data.Seed)
			}
			_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"observation","data":{}}`))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions = append(s.sessions, own)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// The seeds of a session depend on its number alone, however many connect at the same time.
func TestEveryEpisodeHasItsOwnSeed(t *testing.T) {
	for _, dialing := range []int{1, 8} {
		t.Run(fmt.Sprint(dialing, " at a time"), func(t *testing.T) {
			const sessions, first = 8, 100
			var s seeds
			cfg := searches(s.serve(t), sessions)
			cfg.Seed, cfg.Dialing, cfg.Duration = first, dialing, 50*time.Millisecond
			if got, err := Run(t.Context(), cfg); err != nil || len(got.Failures) != 0 {
				t.Fatal(got.Failures, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			starts := make([]int64, len(s.sessions))
			for i, own := range s.sessions {
				if len(own) < 2 {
					t.Fatalf("session %d played %d episodes", i, len(own))
				}
				starts[i] = own[0]
				for k, seed := range own {
					if want := own[0] + int64(k*sessions); seed != want {
						t.Fatalf("episode %d of the session of seed %d has seed %d, want %d", k, own[0], seed, want)
					}
				}
			}
			slices.Sort(starts)
			if diff := cmp.Diff([]int64{100, 101, 102, 103, 104, 105, 106, 107}, starts); diff != "" {
				t.Error(strings.TrimSpace(diff))
			}
		})
	}
}
