package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOrigins(t *testing.T) {
	handler := refuseOrigins(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}), []string{"https://trainer.example"})
	for name, tt := range map[string]struct {
		origin, host string
		served       bool
	}{
		"a program":               {"", "localhost:8000", true},
		"a page of this machine":  {"http://localhost:8000", "localhost:8000", true},
		"of another port":         {"http://127.0.0.1:3000", "localhost:8000", true},
		"of IPv6":                 {"http://[::1]:8000", "[::1]:8000", true},
		"its own address":         {"http://192.168.1.5:8000", "192.168.1.5:8000", true},
		"its own address of IPv6": {"http://[fd00::5]:8000", "[fd00::5]:8000", true},
		"an allowed site":         {"https://trainer.example", "localhost:8000", true},
		"another site":            {"http://evil.example", "localhost:8000", false},
		"another address":         {"http://192.168.1.6:8000", "192.168.1.5:8000", false},
		"a name that leads here":  {"http://evil.example:8000", "evil.example:8000", false},
		"a name like ours":        {"http://localhost.evil.example", "localhost:8000", false},
		"a file or a sandbox":     {"null", "localhost:8000", false},
		"the allowed site, plain": {"http://trainer.example", "localhost:8000", false},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := httptest.NewRequest(method, "http://"+tt.host+"/ws", nil)
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if served := w.Code == http.StatusNoContent; served != tt.served {
				t.Errorf("%s: %s answered %d", name, method, w.Code)
			}
		}
	}
}
