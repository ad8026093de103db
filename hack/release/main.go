// Command release builds the files of a release from a commit, signs and verifies them, and pushes
// the image and the chart. It needs neither Docker nor, once the Go modules are there, a network.
//
// The same commit, Go release, parameters and key give the same bytes: nothing depends on the time
// or on the machine, and the signatures are deterministic.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "release",
		Short:         "Build, sign, verify and push the files of a release",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), verifyCommand(), keysCommand(), pushCommand())
	return root
}

const keyHelp = "private key that signs: PEM, encrypted by cosign with $COSIGN_PASSWORD or not; " +
	"defaults to $COSIGN_KEY; without one nothing is signed"

func buildCommand() *cobra.Command {
	r := release{}
	var out, platforms, key string
	cmd := &cobra.Command{
		Use:   "build --version v1.2.3",
		Short: "Build a release from the commit that is checked out",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&r.version, "version", "", "version of the release, such as v1.2.3 (required)")
	flags.StringVar(&r.repository, "image", "ghcr.io/csenv/csenv", "name of the image in its registry, without a tag")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64",
		"platforms of the command line; those of Linux are also the image's")
	flags.StringVar(&r.builder, "builder", "https://github.com/csenv/csenv/blob/main/docs/verify.md#builders",
		"URI of what runs the build, for the provenance")
	flags.StringVar(&key, "key", os.Getenv("COSIGN_KEY"), keyHelp)
	flags.StringVar(&out, "out", "dist", "folder of the release; an earlier one there is replaced")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if r.platforms, err = parsePlatforms(platforms); err != nil {
			return err
		}
		if key != "" {
			if r.key, err = readPrivateKey(key); err != nil {
				return err
			}
		}
		if r.repo, err = os.Getwd(); err != nil {
			return err
		}
		r.progress = cmd.ErrOrStderr()
		return r.build(cmd.Context(), out)
	}
	return cmd
}

func verifyCommand() *cobra.Command {
	var dir, key string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify every file of a release, without a network",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dir, "dir", "dist", "folder of the release")
	cmd.Flags().StringVar(&key, "key", os.Getenv("COSIGN_PUB"),
		"public key of whoever should have signed; defaults to $COSIGN_PUB; without one signatures are not verified")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := verification{dir: dir}
		if key != "" {
			var err error
			if v.key, err = readPublicKey(key); err != nil {
				return err
			}
		}
		v.run()
		return v.report(cmd.OutOrStdout())
	}
	return cmd
}

func keysCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keys PREFIX",
		Short: "Make a key pair, PREFIX.key and PREFIX.pub, like cosign generate-key-pair",
		Long: `Make a key pair, PREFIX.key and PREFIX.pub, like cosign generate-key-pair.

If COSIGN_PASSWORD is set, it encrypts the private key.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := makeKeys(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%[1]s.key signs: keep it secret. %[1]s.pub verifies: publish it.\n",
				args[0])
			return nil
		},
	}
}

func pushCommand() *cobra.Command {
	var dir, chart string
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Push the image and the chart of a release, with their signatures, to the registry",
		Long: `Push the image and the chart of a release, with their signatures, to the registry.

The credentials are those of docker login. The image goes where the release's manifests expect it.
The digests are printed.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dir, "dir", "dist", "folder of the release")
	cmd.Flags().StringVar(&chart, "chart", "",
		"name of the chart in its registry (default: charts/csenv beside the image)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pushed, err := push(cmd.Context(), dir, chart)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(pushed, "\n"))
		return err
	}
	return cmd
}
