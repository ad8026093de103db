package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestServicesAreHeldAndReleased(t *testing.T) {
	const own = "#!/bin/sh\nexit 101\n"
	tests := map[string]struct {
		before, held, after string // content of the policy, or ""
	}{
		"no policy":               {held: heldServices},
		"left by a killed run":    {before: heldServices, held: heldServices},
		"a policy of the machine": {before: own, held: own, after: own},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy := filepath.Join(t.TempDir(), "policy-rc.d")
			if test.before != "" {
				if err := os.WriteFile(policy, []byte(test.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			content := func() string { data, _ := os.ReadFile(policy); return string(data) }
			if err := holdServices(policy); err != nil || content() != test.held {
				t.Errorf("held: %v, %q", err, content())
			}
			if err := releaseServices(policy); err != nil || content() != test.after {
				t.Errorf("released: %v, %q", err, content())
			}
		})
	}
}
