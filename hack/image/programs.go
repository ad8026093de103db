package image

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// Entrypoint runs in containers without a command, as in the Dockerfile.
	Entrypoint = "/envserver"
	// Certificates is where Go programs look for the authorities that they trust.
	Certificates = "etc/ssl/certs/ca-certificates.crt"
)

// Packages lists the programs of the image: the folders below cmd that contain one.
func Packages(repo string) ([]string, error) {
	mains, err := filepath.Glob(filepath.Join(repo, "cmd", "*", "main.go"))
	if err != nil {
		return nil, err
	}
	if len(mains) == 0 {
		return nil, fmt.Errorf("no program to put into the image: %s has no cmd/*/main.go", repo)
	}
	var packages []string
	for _, file := range mains {
		packages = append(packages, "./cmd/"+filepath.Base(filepath.Dir(file)))
	}
	return packages, nil
}

// BuildArgs returns the arguments with which the go command builds packages into the folder dir.
func BuildArgs(version, dir string, packages ...string) []string {
	return append([]string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags", "-s -w -X main.version=" + version, "-o", dir + "/"}, packages...)
}

// Files reads the programs that were built from packages into dir.
func Files(dir string, packages []string) ([]File, error) {
	var files []File
	for _, pkg := range packages {
		program := filepath.Base(pkg)
		content, err := os.ReadFile(filepath.Join(dir, program))
		if err != nil {
			return nil, fmt.Errorf("reading a built program: %w", err)
		}
		files = append(files, File{Path: program, Content: content, Mode: 0o755})
	}
	return files, nil
}

// CertificatesFile returns the authorities that Mozilla trusts, from a Go module, so that images don't
// depend on the machine that made them. It leaves out those that Mozilla is about to distrust,
// because a file of certificates can't say from when on.
func CertificatesFile() (File, error) {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return File{}, err
		}
	}
	return File{Path: Certificates, Content: text.Bytes(), Mode: 0o644}, nil
}
