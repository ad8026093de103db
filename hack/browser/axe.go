package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// axe-core is the library that finds what hinders users of screen readers and keyboards.
const (
	axePackage   = "axe-core@4.14.1"
	axeIntegrity = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
	axeScript    = "package/axe.min.js"
	// maxAxe bounds the bytes of the unpacked script.
	maxAxe = 8 << 20
)

// AxePath is the path of axe-core in the user's cache, whether it is installed or not.
func AxePath() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder: %w", err)
	}
	return filepath.Join(cache, "csenv", axePackage+".js"), nil
}

// InstallAxe downloads axe-core with npm into the user's cache, unless it is there.
func InstallAxe(ctx context.Context, progress io.Writer) error {
	path, err := AxePath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	fmt.Fprintf(progress, "==> downloading %s with npm\n", axePackage)
	folder, err := os.MkdirTemp("", "csenv-axe-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	command := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", folder, axePackage)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("npm pack %s: %w\n%s", axePackage, err, output)
	}
	packed, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil || len(packed) != 1 {
		return fmt.Errorf("npm pack %s wrote %d files, want one", axePackage, len(packed))
	}
	data, err := os.ReadFile(packed[0])
	if err != nil {
		return fmt.Errorf("reading the package: %w", err)
	}
	script, err := unpackAxe(data, axeIntegrity)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("making the cache folder: %w", err)
	}
	return os.WriteFile(path, script, 0o600) //nolint:gosec // the user's cache folder
}

// unpackAxe returns the script of a package whose SHA-512 digest, in base64, is the expected one.
func unpackAxe(packed []byte, integrity string) ([]byte, error) {
	digest := sha512.Sum512(packed)
	if got := base64.StdEncoding.EncodeToString(digest[:]); got != integrity {
		return nil, fmt.Errorf("%s has the SHA-512 digest %s, want %s: it isn't the known package", axePackage, got,
			integrity)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", axePackage, err)
	}
	for files := tar.NewReader(unzipped); ; {
		file, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("looking for %s in %s: %w", axeScript, axePackage, err)
		}
		if file.Name == axeScript {
			return io.ReadAll(io.LimitReader(files, maxAxe))
		}
	}
}
