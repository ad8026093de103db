package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	checksumsFile  = "checksums.txt"
	provenanceFile = "provenance.json"
	signedSuffix   = ".sigstore.json"
	keylessSuffix  = ".keyless.sigstore.json" // of signatures that CI makes with cosign

	statementType = "https://in-toto.io/Statement/v1"
	sourceURL     = "https://github.com/csenv/csenv"
)

// statement is an in-toto statement with SLSA provenance. It has no times of the build, because
// they would make each build different.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string             `json:"buildType"`
		ExternalParameters   externalParameters `json:"externalParameters"`
		InternalParameters   internalParameters `json:"internalParameters"`
		ResolvedDependencies []dependency       `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type externalParameters struct {
	Version   string `json:"version"`
	Image     string `json:"image"`
	Platforms string `json:"platforms"`
}

type internalParameters struct {
	Go      string    `json:"go"`
	Created time.Time `json:"created"` // time of the commit, which every file has
}

type dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

func (r *release) provenance(sums map[string]string) ([]byte, error) {
	s := statement{Type: statementType, PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s.Subject = append(s.Subject, subject{Name: name, Digest: map[string]string{"sha256": sums[name]}})
	}
	b := &s.Predicate.BuildDefinition
	b.BuildType = sourceURL + "/blob/main/docs/verify.md#the-build"
	b.ExternalParameters = externalParameters{Version: r.version, Image: r.repository,
		Platforms: strings.ReplaceAll(platformNames(r.platforms), ", ", ",")}
	b.InternalParameters = internalParameters{Go: r.tools.version, Created: r.created}
	b.ResolvedDependencies = []dependency{{URI: "git+" + sourceURL + "@refs/tags/" + r.version,
		Digest: map[string]string{"gitCommit": r.commit}}}
	s.Predicate.RunDetails.Builder.ID = r.builder
	return json.MarshalIndent(s, "", "  ")
}

func readProvenance(dir string) (statement, error) {
	text, err := os.ReadFile(filepath.Join(dir, provenanceFile))
	if err != nil {
		return statement{}, fmt.Errorf("reading the provenance: %w", err)
	}
	var s statement
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return statement{}, fmt.Errorf("reading the provenance: %w", err)
	}
	return s, nil
}

// attest writes the provenance of all files, their checksums and the signatures of both.
func (r *release) attest(context.Context) error {
	sums, err := hashFiles(r.stage)
	if err != nil {
		return err
	}
	provenance, err := r.provenance(sums)
	if err != nil {
		return err
	}
	if err := r.write(provenanceFile, provenance); err != nil {
		return err
	}
	if r.key != nil {
		signed, err := signStatement(r.key, provenance)
		if err != nil {
			return err
		}
		if err := r.write(provenanceFile+signedSuffix, signed); err != nil {
			return err
		}
	}
	if sums, err = hashFiles(r.stage); err != nil {
		return err
	}
	text := formatChecksums(sums)
	if err := r.write(checksumsFile, text); err != nil || r.key == nil {
		return err
	}
	signed, err := signText(r.key, text)
	if err != nil {
		return err
	}
	return r.write(checksumsFile+signedSuffix, signed)
}

// isChecksumsFile reports whether the checksums can't name the file: they, and their signatures.
func isChecksumsFile(name string) bool {
	return name == checksumsFile || name == checksumsFile+signedSuffix || name == checksumsFile+keylessSuffix
}

// hashFiles returns the SHA-256 of every file below dir, by its name there. A release has only
// plain files, so a link in it is an error.
func hashFiles(dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || isChecksumsFile(name) {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no plain file", name)
		}
		sums[name], err = hashOf(filepath.Join(dir, name))
		return err
	})
	return sums, err
}

func hashOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// formatChecksums writes sums as sha256sum does.
func formatChecksums(sums map[string]string) []byte {
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	return text.Bytes()
}
