package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The server is tested in cmd/envserver. This test checks the command: it starts, and ends cleanly
// when requested.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := runWith(ctx, []string{"serve", "--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--log-level",
		"error"}, strings.NewReader(""), &out, &errs); code != exitDone {
		t.Errorf("exit code %d: %s", code, &errs)
	}
	if _, errs, code := csenv(t, "serve", "--environment", "chess"); code != exitError ||
		!strings.Contains(errs, "choose ticket or workflow") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
