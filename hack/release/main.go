// Command release builds the files of a release from a commit, signs them, and pushes the image and
// the chart. It needs neither Docker nor, once the Go modules are there, a network.
//
// The same commit, Go release, parameters and key give the same bytes: nothing depends on the time
// or on the machine, and the signatures are deterministic.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
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
		Short:         "Build, sign and push the files of a release",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), pushCommand())
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
		"platforms of the command line; the Linux ones are also the image's")
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

// readPrivateKey reads a key that cosign or openssl has made.
func readPrivateKey(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is no key: it must be a PEM file", file)
	}
	der := block.Bytes
	switch block.Type {
	case plainKey:
	case encryptedKey:
		password, ok := os.LookupEnv("COSIGN_PASSWORD")
		if !ok {
			return nil, fmt.Errorf("%s is encrypted: set COSIGN_PASSWORD", file)
		}
		if der, err = encrypted.Decrypt(der, []byte(password)); err != nil {
			return nil, fmt.Errorf("decrypting %s with COSIGN_PASSWORD: %w", file, err)
		}
	default:
		return nil, fmt.Errorf("%s holds a %s: it must be a %s or %s", file, block.Type, plainKey, encryptedKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s holds a %T: it must be an ECDSA key on the curve P-256", file, parsed)
	}
	return key, nil
}

func pushCommand() *cobra.Command {
	var dir, chart string
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Push the image and the chart of a release, with their signatures, to the registry",
		Long: `Push the image and the chart of a release, with their signatures, to the registry.

The credentials come from docker login. The image goes where the release's manifests expect it.
The digests are printed.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dir, "dir", "dist", "folder of the release")
	cmd.Flags().StringVar(&chart, "chart", "",
		"name of the chart in its registry (default: charts/csenv beside the image)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pushed, err := pushArtefacts(cmd.Context(), dir, chart)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(pushed, "\n"))
		return err
	}
	return cmd
}

// pushArtefacts pushes image and chart with their signatures, and returns their references.
func pushArtefacts(ctx context.Context, dir, chart string) ([]string, error) {
	statement, err := readProvenance(dir)
	if err != nil {
		return nil, err
	}
	p := statement.Predicate.BuildDefinition.ExternalParameters
	if chart == "" {
		chart = path.Join(path.Dir(p.Image), "charts", "csenv")
	}
	var pushed []string
	for _, one := range []struct{ folder, repository, tag string }{
		{imageFolder, p.Image, p.Version}, {chartFolder, chart, strings.ReplaceAll(chartVersion(p.Version), "+", "_")},
	} {
		reference, err := pushLayout(ctx, filepath.Join(dir, one.folder), one.repository, one.tag)
		if err != nil {
			return nil, fmt.Errorf("pushing the %s: %w", one.folder, err)
		}
		pushed = append(pushed, reference)
	}
	return pushed, nil
}

// pushLayout pushes every entry of a layout: first what has a name, then the signatures of it.
func pushLayout(ctx context.Context, dir, repository, tag string) (string, error) {
	registry, err := name.NewRepository(repository)
	if err != nil {
		return "", err
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	var pushed string
	for _, entry := range manifest.Manifests {
		var reference name.Reference = registry.Digest(entry.Digest.String())
		if entry.Annotations[refNameAnnotation] != "" {
			pushed, reference = reference.Name(), registry.Tag(tag)
		}
		if entry.MediaType.IsIndex() {
			index, err := all.ImageIndex(entry.Digest)
			if err != nil {
				return "", err
			}
			if err := remote.WriteIndex(reference, index, options...); err != nil {
				return "", err
			}
			continue
		}
		image, err := all.Image(entry.Digest)
		if err != nil {
			return "", err
		}
		if err := remote.Write(reference, image, options...); err != nil {
			return "", err
		}
	}
	return pushed, nil
}
