package results

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestErrorsTellNoCredentials(t *testing.T) {
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2024&sig=c2VjcmV0\n")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalr/secret")
	t.Setenv("AWS_SESSION_TOKEN", "")
	failed := &url.Error{Op: "Put", URL: "https://me:pass@acc.blob.core.windows.net/evals/a.jsonl?comp=block&sig=abc%2B", Err: errors.New("dial tcp: refused")}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a transport's error":        {fmt.Errorf("writing: %w", failed), `writing: Put "https://acc.blob.core.windows.net/evals/a.jsonl": dial tcp: refused`},
		"a URL with an escape":       {&url.Error{Op: "parse", URL: "http://h/p?sig=a\x7fb", Err: io.EOF}, `parse "http://h/p": EOF`},
		"a secret of the variables":  {errors.New("signing with wJalr/secret failed, sv=2024&sig=c2VjcmV0 too"), "signing with [redacted] failed, [redacted] too"},
		"what holds no secret stays": {errors.New("s3://bucket/prefix: NoSuchBucket? (see https://host/help#x)"), "s3://bucket/prefix: NoSuchBucket? (see https://host/help#x)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Redact(tc.err)
			if diff := cmp.Diff(tc.want, got.Error()); diff != "" || !errors.Is(got, tc.err) {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if Redact(nil) != nil {
		t.Error("no error became one")
	}
}
