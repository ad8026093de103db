package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/csenv/csenv/hack/image"
)

// kind runs the kind command, on machines with Docker.
type kind struct {
	builder
	reason string
}

func (k kind) where() folders     { return k.folders }
func (k kind) kubeconfig() string { return k.at("kubeconfig") }

func (k kind) kubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return k.find("kubectl"), k.ensure(ctx, "kubectl")
}

// exists reports whether the cluster exists in kind.
func (k kind) exists(ctx context.Context) (bool, error) {
	names, err := runProgram(ctx, "kind", "get", "clusters")
	if err != nil {
		return false, fmt.Errorf("listing kind's clusters: %w", err)
	}
	return slices.Contains(strings.Fields(names), k.name), nil
}

func (k kind) up(ctx context.Context, nodes int, network string) error {
	if network != "" {
		return errors.New("kind chooses its network: set CSENV_CLUSTER=local for another")
	}
	if nodes > 1 {
		return errors.New("kind's cluster has one node: set CSENV_CLUSTER=local for two")
	}
	logProgressf(k.progress, "using kind: %s", k.reason)
	if err := writeFile(k.at("provider"), []byte(providerKind+"\n"), 0o644); err != nil {
		return err
	}
	there, err := k.exists(ctx)
	if err != nil {
		return err
	}
	if there {
		logProgressf(k.progress, "kind's cluster %s is there; writing its kubeconfig", k.name)
		return k.show(ctx, "kind", "export", "kubeconfig", "--name", k.name, "--kubeconfig", k.kubeconfig())
	}
	logProgressf(k.progress, "creating kind's cluster %s (a first time downloads the node image)", k.name)
	return k.show(ctx, "kind", "create", "cluster", "--name", k.name, "--kubeconfig", k.kubeconfig(), "--wait", "3m")
}

func (k kind) load(ctx context.Context, name string) (string, error) {
	there, err := k.exists(ctx)
	if err != nil {
		return "", err
	}
	if !there {
		return "", fmt.Errorf("kind has no cluster %s: run up first", k.name)
	}
	logProgressf(k.progress, "building %s with Docker", name)
	if err := k.show(ctx, "docker", "build", "--build-arg", "VERSION="+describeRevision(ctx, k.repo), "--tag", name,
		k.repo); err != nil {
		return "", err
	}
	logProgressf(k.progress, "loading %s into kind's node", name)
	if err := k.show(ctx, "kind", "load", "docker-image", name, "--name", k.name); err != nil {
		return "", err
	}
	digest, err := runProgram(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", name)
	return strings.TrimSpace(digest), err
}

func (k kind) loadReleased(ctx context.Context, dir string) (string, error) {
	released, names, err := image.FindRelease(dir)
	if err != nil {
		return "", err
	}
	archive, err := os.CreateTemp("", "csenv-image-*.tar")
	if err != nil {
		return "", err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if err := image.WriteArchive(archive, released, names...); err != nil {
		return "", err
	}
	logProgressf(k.progress, "loading %s into kind's node", strings.Join(names, " and "))
	if err := k.show(ctx, "kind", "load", "image-archive", archive.Name(), "--name", k.name); err != nil {
		return "", err
	}
	digest, err := released.Digest()
	return digest.String(), err
}

func (k kind) down(ctx context.Context) error {
	logProgressf(k.progress, "deleting kind's cluster %s", k.name)
	if err := k.show(ctx, "kind", "delete", "cluster", "--name", k.name, "--kubeconfig", k.kubeconfig()); err != nil {
		return err
	}
	return k.remove()
}

func (k kind) status(ctx context.Context, out io.Writer) error {
	there, err := k.exists(ctx)
	if err != nil {
		return err
	}
	state := "not running"
	if there {
		state = "running"
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "provider\tkind (%s)\ncluster\t%s\n", k.reason, state)
	if there {
		fmt.Fprintf(table, "kubeconfig\t%s\n", k.kubeconfig())
	}
	return table.Flush()
}

// show runs a program and shows its output as progress.
func (k kind) show(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = k.progress, k.progress
	// Variables such as KIND_EXPERIMENTAL_PROVIDER are passed on; the shell's KUBECONFIG is not.
	cmd.Env = environWithoutKubeconfig()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s %s: %w", name, args[0], err)
	}
	return nil
}
