package openenv

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The official Python client plays against this server.
func TestOfficialClient(t *testing.T) {
	python := os.Getenv("CSENV_OPENENV_PYTHON")
	if python == "" {
		t.Skip("set CSENV_OPENENV_PYTHON to a python that has the package openenv to play with the official client")
	}
	_, url := serve(t, Config{MaxSessions: 2})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, python, "testdata/official_client.py", url, "2").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
