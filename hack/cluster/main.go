// Command cluster runs a small Kubernetes cluster on this machine for the demo and the
// end-to-end suite, and finds the binaries that the envtest suites need.
//
// It needs no Docker, no image registry and no downloads from GitHub: the Kubernetes programs are
// built from Go modules, the container runtime is installed from Debian packages, and the images
// are built from static binaries. If Docker and kind are installed, the same commands use kind
// instead.
//
// All files are in one folder. The node's mounts are in a separate mount namespace, so that they
// end with the node.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/hack/image"
)

func main() {
	os.Exit(executeCommand())
}

func executeCommand() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	return 0
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "cluster",
		Short: "A small Kubernetes on this machine, from Go modules and Debian packages",
		Long: `A small Kubernetes on this machine.

Where Docker runs and kind is on PATH, kind makes the cluster. Elsewhere etcd and
Kubernetes are built from Go modules and run straight on this machine, which needs
Linux, root and (for packages that are missing) Debian or Ubuntu.

Environment:
  CSENV_CLUSTER       local or kind; empty lets the machine decide
  CSENV_CLUSTER_NAME  name of another cluster beside the first one, "" for that
  CSENV_CLUSTER_DIR   state folder (default ~/.cache/csenv/cluster, or cluster-NAME)`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), imageCommand(), loadCommand(), downCommand(), statusCommand(),
		kubeconfigCommand(), kubectlCommand(), binariesCommand(), envtestCommand())
	return root
}

// withProvider adapts a function that uses the chosen provider to a cobra command.
func withProvider(run func(cmd *cobra.Command, p provider) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		p, err := chooseProvider(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return run(cmd, p)
	}
}

// withLockedProvider is like withProvider, for commands that change the cluster: they run one at a
// time.
func withLockedProvider(run func(cmd *cobra.Command, p provider) error) func(*cobra.Command, []string) error {
	return withProvider(func(cmd *cobra.Command, p provider) error {
		release, err := acquireLock(cmd.Context(), p.where().lockFile(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer release()
		return run(cmd, p)
	})
}

func (f folders) lockFile() string { return filepath.Join(f.cache, "cluster.lock") }

func upCommand() *cobra.Command {
	var nodes int
	var network string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster, or repair one whose processes died",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().IntVar(&nodes, "nodes", 1, "number of nodes, 1 or 2; the second can be added later")
	cmd.Flags().StringVar(&network, "network", "", "the network of a new cluster, such as 10.97.0.0/16; "+
		"empty takes the first that is free")
	cmd.RunE = withLockedProvider(func(cmd *cobra.Command, p provider) error {
		if nodes < 1 || nodes > 2 {
			return fmt.Errorf("--nodes=%d: it must be 1 or 2", nodes)
		}
		if err := p.up(cmd.Context(), nodes, network); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", p.kubeconfig())
		return err
	})
	return cmd
}

func imageCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "image FILE",
		Short: "Build the csenv image and write it to a file, as a tarred OCI layout",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			repo, err := repoRoot()
			if err != nil {
				return err
			}
			built, err := csenvImage(cmd.Context(), repo, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			file, err := os.Create(args[0])
			if err != nil {
				return err
			}
			return errors.Join(image.WriteArchive(file, built, "docker.io/library/csenv:dev"), file.Close())
		},
	}
}

func loadCommand() *cobra.Command {
	var name, layout string
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Build the csenv image, or take a release's, and load it onto the node",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&name, "image", "csenv:dev", "name of the image")
	cmd.Flags().StringVar(&layout, "layout", "",
		"load the image of a release from this folder, such as dist/image, under the names of its manifests")
	cmd.MarkFlagsMutuallyExclusive("image", "layout")
	cmd.RunE = withLockedProvider(func(cmd *cobra.Command, p provider) error {
		load, what := p.load, name
		if layout != "" {
			load, what = p.loadReleased, layout
		}
		digest, err := load(cmd.Context(), what)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), digest)
		return err
	})
	return cmd
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove everything it made, except built binaries",
		Args:  cobra.NoArgs,
		RunE: withLockedProvider(func(cmd *cobra.Command, p provider) error {
			return p.down(cmd.Context())
		}),
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the state of the cluster and its paths",
		Args:  cobra.NoArgs,
		RunE: withProvider(func(cmd *cobra.Command, p provider) error {
			return p.status(cmd.Context(), cmd.OutOrStdout())
		}),
	}
}

func kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the cluster's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: withProvider(func(cmd *cobra.Command, p provider) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), p.kubeconfig())
			return err
		}),
	}
}

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "kubectl -- ARGS...",
		Short:   "Run the cluster's kubectl against the cluster",
		Example: "  go run ./hack/cluster kubectl -- get nodes",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := chooseProvider(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			path, err := p.kubectl(cmd.Context())
			if err != nil {
				return err
			}
			env := append(environWithoutKubeconfig(), "KUBECONFIG="+p.kubeconfig())
			return syscall.Exec(path, append([]string{path}, args...), env)
		},
	}
}

// environWithoutKubeconfig returns the environment without KUBECONFIG. Adding ours isn't enough,
// because some programs use the first of two entries.
func environWithoutKubeconfig() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "KUBECONFIG=") })
}

func binariesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "binaries [NAME...]",
		Short: "Build the Kubernetes binaries from modules and print their paths",
		Long: `Build the Kubernetes binaries from modules and print their paths.

Without names, prints all binaries, one "name<TAB>path" per line. With names, prints one path per line.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := newBuilder(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return b.print(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
}

// print prints the paths for the command binaries.
func (b builder) print(ctx context.Context, out io.Writer, names []string) error {
	for _, name := range names {
		if !knownProgram(name) {
			return fmt.Errorf("no binary is called %q: run binaries without names to list them", name)
		}
	}
	if err := b.ensure(ctx, names...); err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintln(out, b.find(name))
	}
	if len(names) > 0 {
		return nil
	}
	for _, p := range listPrograms() {
		fmt.Fprintf(out, "%s\t%s\n", p.name, b.path(p))
	}
	return nil
}

func envtestCommand() *cobra.Command {
	var minor string
	cmd := &cobra.Command{
		Use:     "envtest",
		Short:   "Print a folder for KUBEBUILDER_ASSETS, filling it first if it has to",
		Example: `  KUBEBUILDER_ASSETS="$(go run ./hack/cluster envtest)" go test ./...`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBuilder(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			dir, err := b.envtestAssets(cmd.Context(), minor)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
	cmd.Flags().StringVar(&minor, "kubernetes", "", "an older minor of Kubernetes, "+
		strings.Join(olderKubernetes(), " or ")+"; empty is the cluster's")
	return cmd
}

// envtestAssets returns the folder of the programs that the envtest suites need, of a minor of
// Kubernetes or, if it is empty, of the newest.
func (b builder) envtestAssets(ctx context.Context, minor string) (string, error) {
	shared := []string{"etcd", "kubectl"}
	versioned := []string{"kube-apiserver", "kube-controller-manager"}
	if minor == "" || strings.HasPrefix(b.kubernetesVersion(), "v"+minor+".") {
		return b.folder(newest), b.ensure(ctx, append(shared, versioned...)...)
	}
	if !slices.Contains(olderKubernetes(), minor) {
		return "", fmt.Errorf("no Kubernetes %q is pinned here: use %s, or nothing for %s", minor,
			strings.Join(olderKubernetes(), ", "), b.kubernetesVersion())
	}
	if err := b.ensure(ctx, shared...); err != nil {
		return "", err
	}
	if err := b.ensureOf(ctx, newest+"-"+minor, versioned...); err != nil {
		return "", err
	}
	folder := b.folder(newest + "-" + minor)
	for _, name := range shared {
		link := filepath.Join(folder, name)
		if isRegularFile(link) {
			continue
		}
		_ = os.Remove(link) // it may lead to a folder that was deleted
		if err := os.Symlink(b.find(name), link); err != nil {
			return "", fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return folder, nil
}
