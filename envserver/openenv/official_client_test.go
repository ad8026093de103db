package openenv

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The official Python clients play against this server.
func TestOfficialClient(t *testing.T) {
	python := os.Getenv("CSENV_OPENENV_PYTHON")
	if python == "" {
		t.Skip("set CSENV_OPENENV_PYTHON to a python that has the packages openenv and mcp to play with the official clients")
	}
	_, url := serve(t, Config{MaxSessions: 2})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, python, "testdata/official_client.py", url, "2").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
