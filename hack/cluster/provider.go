package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// provider runs a cluster, either directly on this machine or with kind.
type provider interface {
	where() folders
	// up starts so many nodes, in a network or, if it is "", in the first that is free.
	up(ctx context.Context, nodes int, network string) error
	down(ctx context.Context) error
	// load puts the csenv image on the node under the given name and returns its digest.
	load(ctx context.Context, image string) (digest string, err error)
	// loadReleased puts the image of a release on the node, from its layout, under the names that
	// the release's manifests use.
	loadReleased(ctx context.Context, dir string) (digest string, err error)
	status(ctx context.Context, out io.Writer) error
	// kubeconfig returns the path of the cluster's kubeconfig. The user's own is never changed.
	kubeconfig() string
	// kubectl returns the path of a kubectl that fits the cluster.
	kubectl(ctx context.Context) (string, error)
}

const (
	providerLocal = "local"
	providerKind  = "kind"
)

// choice is a provider's name and the reason for choosing it.
type choice struct{ name, reason string }

// resolveProvider chooses a provider. The provider of an existing cluster has precedence over the
// state of the machine. An order that contradicts it is refused, because the other provider would
// remove the state folder.
func resolveProvider(order, recorded string, kindProblem func() string) (choice, error) {
	made := recorded == providerLocal || recorded == providerKind
	switch {
	case made && order != "" && order != recorded:
		return choice{}, fmt.Errorf("CSENV_CLUSTER=%[1]s, but the existing cluster was created by %[2]s: "+
			"unset CSENV_CLUSTER to use it, or remove it with CSENV_CLUSTER=%[2]s go run ./hack/cluster down",
			order, recorded)
	case order == providerLocal || order == providerKind:
		return choice{order, "CSENV_CLUSTER says so"}, nil
	case order != "":
		return choice{}, fmt.Errorf("CSENV_CLUSTER=%s: it must be %s, %s or empty", order, providerLocal, providerKind)
	case made:
		return choice{recorded, "the existing cluster was created by it"}, nil
	}
	if problem := kindProblem(); problem != "" {
		return choice{providerLocal, problem}, nil
	}
	return choice{providerKind, "Docker runs and kind is on PATH"}, nil
}

// kindProblem returns why kind can't be used here, or "".
func kindProblem(ctx context.Context) func() string {
	return func() string {
		if _, err := exec.LookPath("kind"); err != nil {
			return "kind is not on PATH"
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		version, err := runProgram(ctx, "docker", "info", "--format", "{{.ServerVersion}}")
		if err != nil || strings.TrimSpace(version) == "" {
			return "no Docker engine answers"
		}
		return ""
	}
}

func chooseProvider(ctx context.Context, progress io.Writer) (provider, error) {
	b, err := newBuilder(progress)
	if err != nil {
		return nil, err
	}
	recorded, err := os.ReadFile(b.at("provider"))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("reading which provider made the cluster: %w", err)
	}
	chosen, err := resolveProvider(os.Getenv("CSENV_CLUSTER"), strings.TrimSpace(string(recorded)), kindProblem(ctx))
	if err != nil {
		return nil, err
	}
	if chosen.name == providerKind {
		return kind{builder: b, reason: chosen.reason}, nil
	}
	return local{builder: b, reason: chosen.reason}, nil
}
