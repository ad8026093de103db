package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/hack/image"
)

// verifyBlobs reads every blob of a layout, and checks that it has the digest of its name.
func verifyBlobs(dir string) error {
	blobs := filepath.Join(dir, "blobs", "sha256")
	entries, err := os.ReadDir(blobs)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		sum, err := hashOf(filepath.Join(blobs, entry.Name()))
		if err != nil {
			return err
		}
		if sum != entry.Name() {
			return fmt.Errorf("the blob %s has the digest %s", entry.Name(), sum)
		}
	}
	return nil
}

// image checks the image's layout, and returns its digest.
func (v *verification) image() (v1.Hash, string, error) {
	if err := verifyBlobs(v.path(imageFolder)); err != nil {
		return v1.Hash{}, "", err
	}
	index, names, err := image.FindRelease(v.path(imageFolder))
	if err != nil {
		return v1.Hash{}, "", err
	}
	if want := v.named.Image + ":" + v.named.Version; names[0] != want {
		return v1.Hash{}, "", fmt.Errorf("the layout names it %s, want %s", names[0], want)
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, "", err
	}
	if err := validate.Index(index); err != nil {
		return digest, "", err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return digest, "", err
	}
	want := imagePlatforms(v.platforms)
	if len(manifest.Manifests) != len(want) {
		return digest, "", fmt.Errorf("%d platforms, want %s", len(manifest.Manifests), platformNames(want))
	}
	details := []string{digest.String()}
	for i, p := range want {
		if got := manifest.Manifests[i].Platform; got == nil || !got.Equals(p) {
			return digest, "", fmt.Errorf("platform %d is %s, want %s", i+1, got, p)
		}
		made, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			return digest, "", err
		}
		size, err := layersSize(made)
		if err != nil {
			return digest, "", err
		}
		if size > imageBudget {
			return digest, "", fmt.Errorf("%s has %.1f MB, %.1f MB over the budget", p, float64(size)/1e6,
				(float64(size)-imageBudget)/1e6)
		}
		details = append(details, fmt.Sprintf("%s %.1f MB", p, float64(size)/1e6))
	}
	return digest, strings.Join(details, ", "), nil
}

// layoutSignature verifies the signature of what a layout names.
func (v *verification) layoutSignature(folder string) (string, error) {
	all, err := layout.ImageIndexFromPath(v.path(folder))
	if err != nil {
		return "", err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return "", err
	}
	var named *v1.Descriptor
	var signature v1.Image
	for _, entry := range manifest.Manifests {
		switch {
		case entry.Annotations[refNameAnnotation] != "":
			named = &entry
		case entry.ArtifactType == bundleType:
			if signature, err = all.Image(entry.Digest); err != nil {
				return "", err
			}
		}
	}
	switch {
	case named == nil:
		return "", errors.New("the layout names nothing")
	case v.key == nil && signature == nil:
		return "", fmt.Errorf("not signed; if it should be, %w", errNoKey)
	case v.key == nil:
		return "", errNoKey
	case signature == nil:
		return "", errors.New("no signature")
	}
	return "by the given key", verifyReferrer(v.key, signature, named.Digest)
}

// verifyReferrer verifies an artefact that signs digest.
func verifyReferrer(key *ecdsa.PublicKey, signature v1.Image, digest v1.Hash) error {
	manifest, err := signature.Manifest()
	if err != nil {
		return err
	}
	if manifest.Subject == nil || manifest.Subject.Digest != digest {
		return errors.New("the signature is attached to another digest")
	}
	layers, err := signature.Layers()
	if err != nil {
		return err
	}
	if len(layers) != 1 {
		return fmt.Errorf("the signature has %d layers, want 1", len(layers))
	}
	content, err := layers[0].Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	bundled, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	statement, err := imageStatement(digest)
	if err != nil {
		return err
	}
	return verifyStatement(key, statement, bundled)
}

// chart checks the packed chart, and that its OCI artefact has the same bytes.
func (v *verification) chart(reference string) (string, error) {
	packed, err := v.read(chartFile(v.named.Version))
	if err != nil {
		return "", err
	}
	if err := verifyBlobs(v.path(chartFolder)); err != nil {
		return "", err
	}
	if err := v.sameChart(packed); err != nil {
		return "", err
	}
	files, err := unpackTarGz(packed)
	if err != nil {
		return "", err
	}
	var about struct{ Version, AppVersion string }
	var values struct {
		Image struct{ Repository, Tag string }
	}
	for _, file := range files {
		switch file.Path {
		case "csenv/Chart.yaml":
			err = yaml.Unmarshal(file.Content, &about)
		case "csenv/values.yaml":
			err = yaml.Unmarshal(file.Content, &values)
		}
		if err != nil {
			return "", err
		}
	}
	if about.Version != chartVersion(v.named.Version) || about.AppVersion != v.named.Version {
		return "", fmt.Errorf("it has the versions %q and %q", about.Version, about.AppVersion)
	}
	if got := values.Image.Repository + ":" + values.Image.Tag; got != reference {
		return "", fmt.Errorf("the image is %s, want %s", got, reference)
	}
	return "names " + reference, nil
}

// sameChart checks that the artefact with the chart's version has the packed chart.
func (v *verification) sameChart(packed []byte) error {
	all, err := layout.ImageIndexFromPath(v.path(chartFolder))
	if err != nil {
		return err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return err
	}
	for _, entry := range manifest.Manifests {
		if entry.Annotations[refNameAnnotation] != chartVersion(v.named.Version) {
			continue
		}
		artefact, err := all.Image(entry.Digest)
		if err != nil {
			return err
		}
		_, err = artefact.LayerByDigest(newDescriptor(helmContent, packed).Digest)
		return err
	}
	return fmt.Errorf("the OCI layout has no chart %s", chartVersion(v.named.Version))
}

func unpackTarGz(packed []byte) ([]image.File, error) {
	content, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return unpackTar(content)
}

// unpackTar reads the plain files of an archive.
func unpackTar(content io.Reader) ([]image.File, error) {
	var files []image.File
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		files = append(files, image.File{Path: path.Clean(header.Name), Content: text, Mode: header.Mode})
	}
}

// filterExecutables are the programs among files.
func filterExecutables(files []image.File) []image.File {
	var programs []image.File
	for _, file := range files {
		if file.Mode&0o111 != 0 {
			programs = append(programs, file)
		}
	}
	return programs
}
