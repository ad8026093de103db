package buckets

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

const (
	// googleCredentials has the text of a service account's key, and googleFile names a file of it.
	googleCredentials = "GOOGLE_CREDENTIALS" //nolint:gosec // a name, not a credential
	googleFile        = "GOOGLE_APPLICATION_CREDENTIALS"
	storageScope      = "https://www.googleapis.com/auth/devstorage.read_write"
)

func openGoogle(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	q, err := readParameters(u, "anonymous")
	if err != nil {
		return nil, err
	}
	anonymous, err := readBool(q, "anonymous")
	if err != nil {
		return nil, err
	}
	if anonymous {
		return gcsblob.OpenBucket(ctx, gcp.NewAnonymousHTTPClient(gcp.DefaultTransport()), u.Host, nil)
	}
	source, err := findGoogleCredentials(ctx)
	if err != nil {
		return nil, err
	}
	client, err := gcp.NewHTTPClient(gcp.DefaultTransport(), source)
	if err != nil {
		return nil, err
	}
	return gcsblob.OpenBucket(ctx, client, u.Host, nil)
}

// findGoogleCredentials returns the key of the variables or the identity of the pod or machine.
func findGoogleCredentials(ctx context.Context) (oauth2.TokenSource, error) {
	text := []byte(firstVariable(googleCredentials))
	if file := firstVariable(googleFile); len(text) == 0 && file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil { //nolint:gosec // the user's own file
			return nil, fmt.Errorf("reading %s: %w", googleFile, err)
		}
	}
	if len(text) == 0 {
		if emulator := firstVariable("STORAGE_EMULATOR_HOST"); emulator != "" {
			return nil, noIdentity(emulator)
		}
		return google.ComputeTokenSource("", storageScope), nil
	}
	var key struct {
		Type google.CredentialsType `json:"type"`
	}
	if err := json.Unmarshal(text, &key); err != nil {
		return nil, fmt.Errorf("reading the key of Google Cloud: %w", err)
	}
	// Other kinds name programs to run, or files whose text they send to an address of their own.
	if key.Type != google.ServiceAccount && key.Type != google.AuthorizedUser {
		return nil, fmt.Errorf("the credentials for Google Cloud are of the type %q: use a key of a service account, "+
			"or a workload identity", key.Type)
	}
	// The token source outlives the opening.
	found, err := google.CredentialsFromJSONWithType(context.WithoutCancel(ctx), text, key.Type, storageScope)
	if err != nil {
		return nil, fmt.Errorf("reading the key of Google Cloud: %w", err)
	}
	return found.TokenSource, nil
}
