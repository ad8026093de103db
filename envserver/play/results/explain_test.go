package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/score"
)

func TestErrorsContainNoCredentials(t *testing.T) {
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2024&sig=c2VjcmV0\n")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalr/secret")
	t.Setenv("AWS_SESSION_TOKEN", "")
	failed := &url.Error{Op: "Put",
		URL: "https://me:pass@acc.blob.core.windows.net/evals/a.jsonl?comp=block&sig=abc%2B", Err: errors.New(
			"dial tcp: refused")}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a transport's error": {fmt.Errorf("writing: %w", failed),
			`writing: Put "https://acc.blob.core.windows.net/evals/a.jsonl": dial tcp: refused`},
		"a URL with an escape": {&url.Error{Op: "parse", URL: "http://h/p?sig=a\x7fb", Err: io.EOF},
			`parse "http://h/p": EOF`},
		"a secret of the variables": {errors.New("signing with wJalr/secret failed, sv=2024&sig=c2VjcmV0 too"),
			"signing with [redacted] failed, [redacted] too"},
		"texts without secrets remain": {errors.New("s3://bucket/prefix: What? (see https://host/help#x)"),
			"s3://bucket/prefix: What? (see https://host/help#x)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := explainError(tc.err)
			if diff := cmp.Diff(tc.want, got.Error()); diff != "" || !errors.Is(got, tc.err) {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if explainError(nil) != nil {
		t.Error("nil was converted to an error")
	}
}

// answer is an error like those of the stores' SDKs, with the store's message inside other text.
type answer struct {
	code, message string
	status        int
}

func (a answer) Error() string {
	return fmt.Sprintf("operation error S3: PutObject, https response error StatusCode: %d, RequestID: R, HostID: H, "+
		"api error %s: %s", a.status, a.code, a.message)
}

func (a answer) ErrorCode() string    { return a.code }
func (a answer) ErrorMessage() string { return a.message }
func (a answer) HTTPStatusCode() int  { return a.status }

// The summary of a shard has space for 200 characters, which must contain the advice and the
// store's message.
func TestErrorsContainAdvice(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"no region": {errors.New("endpoint rule error, Invalid region: region was not a valid DNS name."), //nolint:revive // the SDK's words

			"the bucket's region is missing: set region in the URL, such as ?region=us-east-1, or AWS_REGION: " +
				"endpoint rule error, Invalid region: region was not a valid DNS name."},
		"no bucket": {answer{"NoSuchBucket", "The specified bucket does not exist.", 404},
			"there is no such bucket: create it or correct its name: NoSuchBucket: The specified bucket does not " +
				"exist (HTTP 404)"},
		"a wrong key": {answer{"SignatureDoesNotMatch", "Check your key.", 403},
			"the store rejects the credentials: correct them: SignatureDoesNotMatch: Check your key (HTTP 403)"},
		"not allowed": {answer{"AccessDenied", "", 403}, "the credentials need permission to list, read and " +
			"create objects: AccessDenied: no message (HTTP 403)"},
		"no credentials": {errors.New("get identity: get credentials: no role found"),
			"there are no credentials: set the variables of docs/results.md: get identity: get credentials: no " +
				"role found"},
		"a wrong region": {answer{"AuthorizationHeaderMalformed", "expecting x", 400},
			"the bucket is in another region: set region in the URL: AuthorizationHeaderMalformed: expecting x " +
				"(HTTP 400)"},
		"full": {answer{"InsufficientStorage", "No space left on device.", 507},
			"the store is full: free some space: InsufficientStorage: No space left on device (HTTP 507)"},
		"a full volume": {&os.PathError{Op: "write", Path: "/results/a", Err: syscall.ENOSPC},
			"the store is full: free some space: write /results/a: no space left on device"},
		"connection refused": {fmt.Errorf("request send failed: %w", refused),
			"the address does not answer: start the store or correct its address: dial tcp: connect: " +
				"connection refused"},
		"it hangs": {fmt.Errorf("canceled, %w", context.DeadlineExceeded),
			"the store does not answer in time: check whether it hangs: context deadline exceeded"},
		"other errors": {answer{"Odd", "Never seen", 500}, "Odd: Never seen (HTTP 500)"},
		"a driver's": {errors.New(`blob (key "a/b") (code=Unknown): mkdir a: permission denied`),
			"mkdir a: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, explainError(fmt.Errorf("%w", tc.err)).Error()); diff != "" ||
				len(tc.want) > score.MaxStoreError {
				t.Errorf("%d letters, -want +got:\n%s", len(tc.want), diff)
			}
		})
	}
}
