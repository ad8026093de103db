package main

import (
	"bytes"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/csenv/csenv/hack/image"
)

// verification is one run over a release. Nothing of it needs a network.
type verification struct {
	dir       string
	key       *ecdsa.PublicKey // nil: signatures aren't verified
	sums      map[string]string
	platforms []v1.Platform
	named     externalParameters // what the provenance says was asked for
	facts     internalParameters
	rows      []row
}

// row is a line of the report.
type row struct{ what, result, detail string }

const (
	passed     = "ok"
	failed     = "FAILED"
	notChecked = "not checked"
)

var errNoKey = errors.New("set COSIGN_PUB to the public key of whoever should have signed")

func (v *verification) check(what string, do func() (detail string, err error)) {
	detail, err := do()
	switch {
	case errors.Is(err, errNoKey):
		v.rows = append(v.rows, row{what, notChecked, err.Error()})
	case err != nil:
		v.rows = append(v.rows, row{what, failed, err.Error()})
	default:
		v.rows = append(v.rows, row{what, passed, detail})
	}
}

// run checks everything. A failed check stops none of the others, except that without provenance it
// isn't known what to expect.
func (v *verification) run() {
	v.check("checksums", v.checksums)
	v.check("signature of the checksums", func() (string, error) { return v.signature(checksumsFile, verifyText) })
	v.check("provenance", v.provenance)
	if v.platforms == nil {
		return
	}
	v.check("signature of the provenance", func() (string, error) {
		return v.signature(provenanceFile, verifyStatement)
	})
	var reference string
	v.check("image", func() (string, error) {
		digest, detail, err := v.image()
		reference = v.named.Image + ":" + v.named.Version + "@" + digest.String()
		return detail, err
	})
	v.check("signature of the image", func() (string, error) { return v.layoutSignature(imageFolder) })
	for _, p := range v.platforms {
		v.check("archive and SBOMs of "+p.String(), func() (string, error) { return v.archive(p) })
	}
	for _, p := range imagePlatforms(v.platforms) {
		v.check("image's SBOMs of "+p.String(), func() (string, error) { return v.imageBill(p) })
	}
	v.check(installFile, func() (string, error) {
		text, err := v.read(installFile)
		if err != nil {
			return "", err
		}
		if problem := wrongImages(text, reference); problem != "" {
			return "", errors.New(problem)
		}
		return "names " + reference, nil
	})
	v.check("chart", func() (string, error) { return v.chart(reference) })
	v.check("signature of the chart", func() (string, error) { return v.layoutSignature(chartFolder) })
	if _, err := os.Stat(v.path(checksumsFile + keylessSuffix)); err == nil {
		v.rows = append(v.rows, row{"keyless signature of the checksums", notChecked,
			"cosign verifies it, with a network: see docs/verify.md"})
	}
}

// imageBill checks the SBOMs of the image's programs on a platform.
func (v *verification) imageBill(p v1.Platform) (string, error) {
	index, _, err := image.FindRelease(v.path(imageFolder))
	if err != nil {
		return "", err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", err
	}
	for _, entry := range manifest.Manifests {
		if entry.Platform == nil || !entry.Platform.Equals(p) {
			continue
		}
		made, err := index.Image(entry.Digest)
		if err != nil {
			return "", err
		}
		content := mutate.Extract(made)
		defer content.Close()
		files, err := unpackTar(content)
		if err != nil {
			return "", err
		}
		return v.bill(artefactName("csenv-image", v.named.Version, p), p, filterExecutables(files))
	}
	return "", fmt.Errorf("the image isn't for %s", p)
}

func (v *verification) path(name string) string { return filepath.Join(v.dir, name) }

func (v *verification) read(name string) ([]byte, error) { return os.ReadFile(v.path(name)) }

func (v *verification) checksums() (string, error) {
	var err error
	if v.sums, err = hashFiles(v.dir); err != nil {
		return "", err
	}
	text, err := v.read(checksumsFile)
	if err != nil {
		return "", err
	}
	if problems := compareChecksums(text, v.sums); problems != nil {
		return "", errors.New(strings.Join(problems, ", "))
	}
	return fmt.Sprintf("%d files", len(v.sums)), nil
}

// signature verifies the bundle beside a file.
func (v *verification) signature(name string, verify func(*ecdsa.PublicKey, []byte, []byte) error) (string, error) {
	bundled, err := v.read(name + signedSuffix)
	if os.IsNotExist(err) && v.key == nil {
		return "", fmt.Errorf("not signed; if it should be, %w", errNoKey)
	}
	if err != nil {
		return "", fmt.Errorf("no signature: %w", err)
	}
	if v.key == nil {
		return "", errNoKey
	}
	text, err := v.read(name)
	if err != nil {
		return "", err
	}
	return "by the given key", verify(v.key, text, bundled)
}

// provenance checks that the statement is about exactly the files of the release, and reads what it
// says about them.
func (v *verification) provenance() (string, error) {
	s, err := readProvenance(v.dir)
	if err != nil {
		return "", err
	}
	b := s.Predicate.BuildDefinition
	if s.Type != statementType || len(b.ResolvedDependencies) != 1 || s.Predicate.RunDetails.Builder.ID == "" {
		return "", errors.New("it is no provenance of a release")
	}
	if v.platforms, err = parsePlatforms(b.ExternalParameters.Platforms); err != nil {
		return "", err
	}
	v.named, v.facts = b.ExternalParameters, b.InternalParameters
	want := maps.Clone(v.sums)
	delete(want, provenanceFile)
	delete(want, provenanceFile+signedSuffix)
	got := map[string]string{}
	for _, subject := range s.Subject {
		got[subject.Name] = subject.Digest["sha256"]
	}
	if problems := compareChecksums(formatChecksums(got), want); problems != nil {
		return "", errors.New(strings.Join(problems, ", "))
	}
	return fmt.Sprintf("commit %s, %s, built by %s", b.ResolvedDependencies[0].Digest["gitCommit"], v.facts.Go,
		s.Predicate.RunDetails.Builder.ID), nil
}

// archive checks the command line of a platform: that it is for it, and that its SBOMs describe it.
func (v *verification) archive(p v1.Platform) (string, error) {
	name := artefactName("csenv", v.named.Version, p)
	packed, err := v.read(name + ".tar.gz")
	if err != nil {
		return "", err
	}
	files, err := unpackTarGz(packed)
	if err != nil {
		return "", err
	}
	return v.bill(name, p, filterExecutables(files))
}

// bill compares SBOMs with those that follow from the programs.
func (v *verification) bill(name string, p v1.Platform, programs []image.File) (string, error) {
	b, err := newBill(name, v.named.Version, v.facts.Created, programs)
	if err != nil {
		return "", err
	}
	for _, program := range b.programs {
		for _, setting := range program.info.Settings {
			wanted, known := map[string]string{"GOOS": p.OS, "GOARCH": p.Architecture}[setting.Key]
			if known && setting.Value != wanted {
				return "", fmt.Errorf("%s was built for another platform: %s=%s", program.name, setting.Key,
					setting.Value)
			}
		}
		if program.info.GoVersion != v.facts.Go {
			return "", fmt.Errorf("%s was built by %s", program.name, program.info.GoVersion)
		}
	}
	texts, err := b.sboms()
	if err != nil {
		return "", err
	}
	for _, extension := range slices.Sorted(maps.Keys(texts)) {
		text, err := v.read(name + extension)
		if err != nil {
			return "", err
		}
		if !bytes.Equal(text, texts[extension]) {
			return "", fmt.Errorf("%s%s doesn't describe the programs", name, extension)
		}
	}
	return fmt.Sprintf("%d program(s) of %d modules", len(b.programs), len(b.modules())), nil
}
