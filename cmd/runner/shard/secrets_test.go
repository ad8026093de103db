package shard

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/envvars"
)

// The runner reads its secrets from files, and of a store's Secret no more than a store needs: its
// author chooses the keys.
func TestSecretsAreFiles(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{envvars.RunCredential: "c", envvars.PoolToken: "new\nold\n",
		"AWS_ACCESS_KEY_ID": "id", "PATH": "/mnt/x", "GODEBUG": "http2debug=1", "AWS_CONFIG_FILE": "/mnt/x/config"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(envvars.AgentKey, "of a variable")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	path := os.Getenv("PATH")
	o := options{secrets: folder, storeCredentials: folder}
	got, err := readSecrets(o)
	if want := (secrets{credential: "c", poolToken: "new\nold\n"}); err != nil || got != want {
		t.Errorf("secrets %+v, %v", got, err)
	}
	var logs bytes.Buffer
	if err := useStoreCredentials(o, slog.New(slog.NewTextHandler(&logs, nil))); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("AWS_ACCESS_KEY_ID") != "id" || os.Getenv("PATH") != path || os.Getenv("GODEBUG") != "" ||
		os.Getenv("AWS_CONFIG_FILE") != "" || os.Getenv(envvars.RunCredential) != "" {
		t.Errorf("the variables are %q", os.Environ())
	}
	for _, name := range []string{"PATH", "GODEBUG", "AWS_CONFIG_FILE"} {
		if !strings.Contains(logs.String(), "key="+name) {
			t.Errorf("%s is ignored without a word: %s", name, logs.String())
		}
	}
}
