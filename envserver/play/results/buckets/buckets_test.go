package buckets

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/csenv/csenv/envserver/testkit/isolated"
)

func TestMain(m *testing.M) { isolated.Main(m) }

// store answers every request with an empty list and keeps what it was asked.
type store struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []*http.Request
	answer map[string]string // by path
}

func newStore(t *testing.T) *store {
	s := &store{answer: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r)
		if text, ok := s.answer[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		switch {
		case r.URL.Query().Get("comp") == "list":
			fmt.Fprint(w, `<EnumerationResults><Blobs></Blobs></EnumerationResults>`)
		default:
			fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// last returns the Authorization of the last request, "" if there was none.
func (s *store) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return ""
	}
	return s.asked[len(s.asked)-1].Header.Get("Authorization")
}

// list opens a store and lists its runs.
func list(t *testing.T, location string) error {
	t.Helper()
	s, err := Open(t.Context(), location)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Runs(t.Context())
	return err
}

// hostile sets what an author of runs, or a machine, may have set so that an SDK runs a program.
// The test fails if one was run.
func hostile(t *testing.T, more map[string]string) {
	t.Helper()
	folder := t.TempDir()
	marker := filepath.Join(folder, "was-run")
	for _, name := range []string{"sh", "x", "az", "azd", "pwsh", "gcloud"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n/bin/echo "+name+" >>"+marker+"\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		".aws/config":      "[default]\ncredential_process = x\n[profile p]\ncredential_process = x\n",
		".aws/credentials": "[default]\naws_access_key_id = FROMFILE\naws_secret_access_key = s\n",
		"executable.json": `{"type": "external_account", "audience": "a", "subject_token_type": "t", "token_url": "http://127.0.0.1:1",
			"credential_source": {"executable": {"command": "` + filepath.Join(folder, "x") + `"}}}`,
		"other.json": `{"type": "external_account", "audience": "a", "subject_token_type": "t", "token_url": "http://127.0.0.1:1",
			"credential_source": {"file": "/etc/passwd"}}`,
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	variables := map[string]string{"HOME": folder, "PATH": folder, "AWS_CONFIG_FILE": filepath.Join(folder, ".aws/config"),
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(folder, ".aws/none"), "AWS_SDK_LOAD_CONFIG": "1",
		"GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES": "1",
		"AZURE_TOKEN_CREDENTIALS":                   "dev"}
	for name, value := range more {
		variables[name] = strings.ReplaceAll(value, "HOSTILE", folder)
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(marker); err == nil {
			t.Errorf("programs were run: %s", text)
		}
	})
}

func TestNoProgramIsRun(t *testing.T) {
	s := newStore(t)
	at := func(location string) string { return strings.ReplaceAll(location, "STORE", s.URL) }
	tests := map[string]struct {
		variables map[string]string
		location  string
		want      string
	}{
		"credential_process": {nil, "s3://b/p?region=r&use_path_style=true&endpoint=STORE", "there are no credentials"},
		"of a profile": {map[string]string{"AWS_PROFILE": "p"}, "s3://b/p?region=r&endpoint=STORE",
			"there are no credentials"},
		"by the variable of an endpoint": {map[string]string{"AWS_ENDPOINT_URL": s.URL}, "s3://b/p?region=r",
			"there are no credentials"},
		"a profile in the URL": {nil, "s3://b/p?region=r&profile=p", `the URL's parameter "profile" is none of those`},
		"a role in the URL":    {nil, "s3://b/p?region=r&role=arn:x", `the URL's parameter "role"`},
		"shared credentials": {map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "HOSTILE/.aws/credentials"},
			"s3://b/p?region=r&use_path_style=true&endpoint=STORE", "there are no credentials"},
		"an executable of Google's": {map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "HOSTILE/executable.json"},
			"gs://b/p", `the type "external_account"`},
		"a file that Google's client sends": {map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "HOSTILE/other.json"},
			"gs://b/p", `the type "external_account"`},
		"a file in the URL": {nil, "gs://b/p?access_id=a&private_key_path=/etc/passwd", "the URL's parameter"},
		"Azure's command line": {map[string]string{"AZURE_STORAGE_ACCOUNT": "a"},
			"azblob://c/p?protocol=http&domain=" + strings.TrimPrefix(s.URL, "http://"), "there are no credentials"},
		"no bucket": {nil, "s3:///p?region=r", "the URL names no bucket"},
		"no scheme": {nil, "mem://b", "mem is no scheme of a store"},
		"no region": {nil, "s3://b/p", "the bucket's region is missing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hostile(t, tt.variables)
			if err := list(t, at(tt.location)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if len(s.asked) != 0 {
		t.Errorf("%d requests", len(s.asked))
	}
}

func TestKeysOfTheVariablesAreUsed(t *testing.T) {
	s := newStore(t)
	host := strings.TrimPrefix(s.URL, "http://")
	tests := map[string]struct {
		variables map[string]string
		location  string
		want      string // the beginning of Authorization
	}{
		"S3": {map[string]string{"AWS_ACCESS_KEY_ID": "OWN", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "p"},
			"s3://b/p?region=eu-central-1&use_path_style=true&endpoint=" + s.URL, "AWS4-HMAC-SHA256 Credential=OWN/"},
		"S3 by variables": {map[string]string{"AWS_ACCESS_KEY_ID": "OWN", "AWS_SECRET_ACCESS_KEY": "s",
			"AWS_ENDPOINT_URL_S3": s.URL, "AWS_REGION": "eu-central-1"},
			"s3://b/p?use_path_style=true", "AWS4-HMAC-SHA256 Credential=OWN/"},
		"S3, anonymous": {nil, "s3://b/p?region=r&anonymous=true&use_path_style=true&endpoint=" + s.URL, ""},
		"Azure": {map[string]string{"AZURE_STORAGE_ACCOUNT": "own", "AZURE_STORAGE_KEY": "a2V5"},
			"azblob://c/p?protocol=http&domain=" + host, "SharedKey own:"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hostile(t, tt.variables)
			if err := list(t, tt.location); err != nil {
				t.Fatal(err)
			}
			if got := s.last(); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("Authorization %q, want %q", got, tt.want)
			}
		})
	}
}

func TestKeyOfAServiceAccount(t *testing.T) {
	s := newStore(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@b", "private_key": string(text),
		"token_uri": s.URL + "/token"})
	if err != nil {
		t.Fatal(err)
	}
	s.answer["/token"] = `{"access_token": "own-token", "token_type": "Bearer", "expires_in": 3600}`
	hostile(t, map[string]string{"GOOGLE_CREDENTIALS": string(account)})
	source, err := findGoogleCredentials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if token, err := source.Token(); err != nil || token.AccessToken != "own-token" {
		t.Errorf("token %+v, %v", token, err)
	}
}

// A token is part of an address, so it is sent to no other.
func TestTokenOfAnAccountStaysThere(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "own")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sig=abc")
	for parameters, refused := range map[string]bool{"": false, "?storage_account=own": false,
		"?storage_account=other": true, "?domain=evil.example": true, "?protocol=http": true, "?cdn=true": true,
		"?localemu=true": true} {
		_, err := Open(t.Context(), "azblob://c/p"+parameters)
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "is only sent to") {
			t.Errorf("%q: %v", parameters, err)
		}
	}
}

// The identity of a pod is for the cloud that gave it, and comes from the addresses of that cloud.
func TestIdentityOfAPod(t *testing.T) {
	s := newStore(t)
	s.answer["/credentials"] = `{"AccessKeyId": "POD", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}`
	hostile(t, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": s.URL + "/credentials",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN": "of-the-pod"})
	for endpoint, given := range map[string]bool{"": true, "https://b.vpce-1a.s3.eu-central-1.vpce.amazonaws.com": true,
		"https://s3.amazonaws.com": true, "https://b.s3.eu-central-1.amazonaws.com": true,
		"https://s3-us-west-2.amazonaws.com": true, "https://s3.dualstack.us-gov-west-1.amazonaws.com": true,
		"https://s3-fips.dualstack.us-east-1.amazonaws.com": true, "https://s3.cn-north-1.amazonaws.com.cn": true,
		"https://a-1.s3-accesspoint.eu-west-1.amazonaws.com": true, "https://s3-accelerate.amazonaws.com": true,
		"https://abc123.execute-api.us-east-1.amazonaws.com":     false,
		"https://s3.abc123.execute-api.us-east-1.amazonaws.com":  false,
		"https://s3-1.us-east-1.elb.amazonaws.com":               false,
		"https://s3.elb.amazonaws.com":                           false,
		"https://b.s3-website-us-east-1.amazonaws.com":           false,
		"https://ec2-1-2-3-4.compute-1.amazonaws.com":            false,
		"https://vpce-1.vpce-svc-2.us-east-1.vpce.amazonaws.com": false,
		"https://evils3.amazonaws.com":                           false,
		"https://s3.amazonaws.com@evil.example":                  false,
		"https://evil.example/?x=.s3.eu-central-1.amazonaws.com": false,
		"https://evil.example#.s3.eu-central-1.amazonaws.com":    false,
		"https://s3.us-east-1.amazonaws.com.evil.example":        false,
		"https://evil.example\\@s3.us-east-1.amazonaws.com":      false,
		s.URL: false, "http://s3.amazonaws.com": false, "https://evil.example": false} {
		provider, err := findAWSCredentials(aws.Config{Region: "r"}, endpoint, nil)
		if (err == nil) != given {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		if !given {
			continue
		}
		found, err := provider.Retrieve(t.Context())
		if err != nil || found.AccessKeyID != "POD" || s.last() != "of-the-pod" {
			t.Errorf("%s: key %q with token %q, %v", endpoint, found.AccessKeyID, s.last(), err)
		}
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://evil.example/credentials")
	if _, err := findAWSCredentials(aws.Config{}, "", nil); err == nil {
		t.Error("the pod's token would be sent elsewhere")
	}
}

// The identity of a pod or machine goes to an account in Azure, and to no other address, whatever
// the parameters and variables make of it.
func TestIdentityStaysInAzure(t *testing.T) {
	for address, given := range map[string]bool{
		"https://own.blob.core.windows.net/c": true, "https://own-secondary.blob.core.windows.net/c": true,
		"https://own.blob.core.chinacloudapi.cn/c": true, "https://own.z12.blob.storage.azure.net/c": true,
		"http://own.blob.core.windows.net/c": false, "https://own.evil.example/c": false,
		"https://evil.example/x.blob.core.windows.net/c": false, "https://blob.core.windows.net/c": false,
		"https://evil.example#.blob.core.windows.net/c": false, "https://own.azurewebsites.net/c": false,
		"https://evil.example@own.blob.core.windows.net/c": false, "https://own.blob.core.windows.net:8443/c": false,
	} {
		if got := belongsToAzure(address); got != given {
			t.Errorf("%s: %v", address, got)
		}
	}
	hostile(t, map[string]string{"AZURE_STORAGE_ACCOUNT": "own", "AZURE_STORAGE_DOMAIN": "evil.example"})
	for _, location := range []string{"azblob://c/p", "azblob://c/p?storage_account=evil.example%2F",
		"azblob://c/p?domain=blob.core.windows.net&storage_account=evil.example%23"} {
		if _, err := Open(t.Context(), location); err == nil || !strings.Contains(err.Error(), "there are no credentials") {
			t.Errorf("%s: %v", location, err)
		}
	}
	hostile(t, map[string]string{"STORAGE_EMULATOR_HOST": "evil.example"})
	if _, err := Open(t.Context(), "gs://b/p"); err == nil || !strings.Contains(err.Error(), "there are no credentials") {
		t.Errorf("an emulator: %v", err)
	}
	for _, name := range []string{"x.evil.example/", "a#", "a@b", "a.b"} {
		if _, err := Open(t.Context(), "s3://b/p?region="+url.QueryEscape(name)); err == nil ||
			!strings.Contains(err.Error(), "is not a name such as") {
			t.Errorf("region %s: %v", name, err)
		}
	}
}

// A store's name that leads to this machine or to a service of metadata, by DNS or by a redirect,
// is not followed there.
func TestStoresLeadNowhereElse(t *testing.T) {
	for address, want := range map[string]struct{ named, local bool }{
		"192.0.2.1:443": {true, true}, "10.0.0.1:9000": {true, true}, "[2001:db8::1]:443": {true, true},
		"127.0.0.1:9000": {false, true}, "[::1]:9000": {false, true}, "0.0.0.0:80": {false, true}, "[::]:80": {false, true},
		"[::ffff:127.0.0.1]:80": {false, true}, "169.254.169.254:80": {}, "[::ffff:169.254.169.254]:80": {},
		"169.254.170.2:80": {}, "[fe80::1%eth0]:80": {}, "[fd00:ec2::254]:80": {}, "100.100.100.200:80": {},
		"168.63.129.16:80": {}, "224.0.0.1:80": {},
	} {
		for location, allowed := range map[string]bool{"https://minio.example": want.named, "": want.named,
			"http://localhost:9000": want.local, "http://127.0.0.1:9000": want.local} {
			if err := dialControl(location)(t.Context(), "tcp", address, nil); (err == nil) != allowed {
				t.Errorf("store %q at %s: %v", location, address, err)
			}
		}
	}
	redirecting := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data",
		http.StatusTemporaryRedirect))
	defer redirecting.Close()
	const want = "no store is at 169.254.169.254"
	s3 := "s3://b/p?region=r&anonymous=true&use_path_style=true&endpoint=" + redirecting.URL
	if err := list(t, s3); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("S3: %v", err)
	}
	response, err := newHTTPClient(redirecting.URL).Get(redirecting.URL)
	if err == nil {
		_ = response.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Azure: %v", err)
	}
}
