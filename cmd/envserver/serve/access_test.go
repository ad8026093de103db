package serve

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writeFile writes a file whose time differs from that of every earlier version.
func writeFile(t *testing.T, path, text string, version int) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	modified := time.Unix(int64(1_000_000+version), 0)
	if err := os.Chtimes(path, modified, modified); err != nil {
		t.Fatal(err)
	}
}

func TestTokensAreReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, path, "first\nsecond\n", 1)
	now := time.Unix(0, 0)
	tokens, err := newTokenFile(path, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		text string
		pass time.Duration
		want []string
	}{
		{"first\nsecond\n", 0, []string{"first", "second"}},
		{"third", reloadInterval - 1, []string{"first", "second"}},
		{"third", 1, []string{"third"}},
		{"", reloadInterval, []string{"third"}},
		{"fourth", reloadInterval, []string{"fourth"}},
	} {
		writeFile(t, path, step.text, i+2)
		now = now.Add(step.pass)
		if diff := cmp.Diff(step.want, tokens.get()); diff != "" {
			t.Errorf("step %d (-want +got)\n%s", i, diff)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(reloadInterval)
	if diff := cmp.Diff([]string{"fourth"}, tokens.get()); diff != "" {
		t.Errorf("without the file (-want +got)\n%s", diff)
	}
}

func TestTokens(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "secret\n", 1)
	r := start(t, func(o *options) { o.tokenFile = tokens })
	for _, c := range []struct {
		path, token string
		want        int
	}{{"/health", "", 200}, {"/metadata", "wrong", 401}, {"/metadata", "secret", 200}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.protocol+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+c.token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.token, response.StatusCode, c.want)
		}
	}
	if status, _ := get(t, r.ops+"/readyz"); status != 200 {
		t.Errorf("/readyz on the other port, without a token: %d", status)
	}
}
