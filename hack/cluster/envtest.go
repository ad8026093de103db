package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// downloadTimeout bounds setup-envtest's download. Without network access the download fails much
// earlier.
const downloadTimeout = time.Minute

// retryDownloadAfter is the time until a failed download is repeated, so that machines without
// access to GitHub don't wait for it in every test run.
const retryDownloadAfter = 24 * time.Hour

// envtestAssets returns a folder with etcd, kube-apiserver and kubectl. It prefers built binaries,
// then downloads them, and builds them if the download fails.
func envtestAssets(ctx context.Context, b builder) (string, error) {
	dir := b.folder("kubernetes")
	names := []string{"etcd", "kube-apiserver", "kubectl"}
	if allBuilt(dir, names) {
		return dir, nil
	}
	note := filepath.Join(b.cache, "envtest-download-failed")
	if info, err := os.Stat(note); err != nil || time.Since(info.ModTime()) > retryDownloadAfter {
		path, err := downloadEnvtest(ctx, b)
		if err == nil {
			return path, nil
		}
		sayf(b.progress, "setup-envtest could not download the envtest binaries (%s); building them from modules",
			lastLines(err.Error(), 1))
		if err := writeFile(note, []byte(err.Error()+"\n"), 0o644); err != nil {
			return "", err
		}
	}
	return dir, b.ensure(ctx, names...)
}

func allBuilt(dir string, names []string) bool {
	for _, name := range names {
		if !built(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

// downloadEnvtest runs the pinned setup-envtest for the minor version of the product's k8s.io/api.
func downloadEnvtest(ctx context.Context, b builder) (string, error) {
	product, err := readPins(filepath.Join(b.repo, "go.mod"))
	if err != nil {
		return "", err
	}
	version := envtestVersion(product["k8s.io/api"])
	modfile := "-modfile=" + filepath.Join(b.repo, "hack", "tools", "go.mod")
	sayf(b.progress, "building setup-envtest and asking it for Kubernetes %s", version)
	if err := runGo(ctx, b.progress, b.repo, "tool", modfile, "-n", "setup-envtest"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", modfile, "setup-envtest", "use", version, "-p", "path")
	cmd.Dir = b.repo
	cmd.WaitDelay = time.Second
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running setup-envtest: %w: %s", err, lastLines(failure.String(), 1))
	}
	return strings.TrimSpace(string(out)), nil
}

// envtestVersion converts the version of k8s.io/api, such as v0.37.2, to setup-envtest's selector
// 1.37.x.
func envtestVersion(api string) string {
	parts := strings.Split(api, ".")
	if len(parts) < 2 {
		return "latest"
	}
	return "1." + parts[1] + ".x"
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
