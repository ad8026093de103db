package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/hack/image"
	"github.com/csenv/csenv/hack/shipped"
)

// filesBelow reads the files below dir in the order of their names, with prefix before each name.
func filesBelow(dir, prefix string) ([]image.File, error) {
	var files []image.File
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		files = append(files, image.File{Path: path.Join(prefix, name), Content: content, Mode: 0o644})
		return err
	})
	return files, err
}

// packTarGz makes a compressed archive that depends only on files and created.
func packTarGz(files []image.File, created time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Path, Mode: file.Mode, Size: int64(len(file.Content)),
			ModTime: created, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = zipped.Close()
	return buffer.Bytes(), err
}

// packArchives packs the command line of each platform with its man pages and completions.
func (r *release) packArchives(context.Context) error {
	for _, p := range r.platforms {
		top := artefactName("csenv", r.version, p)
		program, err := os.ReadFile(r.commandLine(p))
		if err != nil {
			return err
		}
		files := []image.File{{Path: path.Join(top, "csenv"), Content: program, Mode: 0o755}}
		for _, name := range []string{"LICENSE", "README.md"} {
			content, err := os.ReadFile(filepath.Join(r.source, name))
			if err != nil {
				return err
			}
			files = append(files, image.File{Path: path.Join(top, name), Content: content, Mode: 0o644})
		}
		docs, err := filesBelow(r.docs(), top)
		if err != nil {
			return err
		}
		packed, err := packTarGz(append(files, docs...), r.created)
		if err != nil {
			return err
		}
		if err := r.write(top+".tar.gz", packed); err != nil {
			return err
		}
	}
	return nil
}

const (
	imageFolder = "image" // OCI layout of the image
	chartFolder = "chart" // OCI layout of the chart
	imageBudget = 60e6    // bytes of an image's layers, which a node downloads
)

// packImage writes the image of all platforms as an OCI layout, and signs it.
func (r *release) packImage(context.Context) error {
	labels := r.annotations()
	var images []v1.Image
	for _, p := range imagePlatforms(r.platforms) {
		program, err := os.ReadFile(r.imageProgram(p))
		if err != nil {
			return err
		}
		files, err := shipped.ListFiles(program)
		if err != nil {
			return err
		}
		made, err := image.Make(files, image.Options{Entrypoint: shipped.Entrypoint, Platform: p,
			Labels: labels, Created: r.created, Compress: true})
		if err != nil {
			return err
		}
		size, err := layersSize(made)
		if err != nil {
			return err
		}
		r.sayf("        %s: %.1f MB compressed", p, float64(size)/1e6)
		if size > imageBudget {
			return fmt.Errorf("%s is %.1f MB above the limit of %.0f MB", p, (float64(size)-imageBudget)/1e6,
				imageBudget/1e6)
		}
		images = append(images, made)
	}
	index, err := image.MakeIndex(images, labels)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	r.image = r.repository + ":" + r.version + "@" + digest.String()
	return r.writeLayout(imageFolder, index, map[string]string{refNameAnnotation: r.version,
		image.NameAnnotation: r.repository + ":" + r.version})
}

// refNameAnnotation is where OCI tools find the tag of an entry of a layout.
const refNameAnnotation = "org.opencontainers.image.ref.name"

// annotations describe image and chart.
func (r *release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
		"org.opencontainers.image.description": "Customer-support environments for AI agents, on Kubernetes",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.source":      sourceURL,
		"org.opencontainers.image.title":       "csenv",
		"org.opencontainers.image.version":     r.version,
	}
}

func layersSize(made v1.Image) (int64, error) {
	manifest, err := made.Manifest()
	if err != nil {
		return 0, err
	}
	var size int64
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}

// writeLayout writes content as an OCI layout, with its signature as a referrer.
func (r *release) writeLayout(folder string, content mutate.Appendable, annotations map[string]string) error {
	dir, err := layout.Write(filepath.Join(r.stage, folder), empty.Index)
	if err != nil {
		return err
	}
	if err := image.AppendToLayout(dir, content, annotations); err != nil {
		return err
	}
	if r.key == nil {
		return nil
	}
	return signLayout(dir, content, r.key)
}

// signLayout adds the signature of content to its layout.
func signLayout(dir layout.Path, content mutate.Appendable, key *ecdsa.PrivateKey) error {
	of, err := partial.Descriptor(content)
	if err != nil {
		return err
	}
	statement, err := imageStatement(of.Digest)
	if err != nil {
		return err
	}
	signed, err := signStatement(key, statement)
	if err != nil {
		return err
	}
	empty := []byte("{}")
	signature, err := newArtefact(signed, v1.Manifest{
		ArtifactType: bundleType,
		Config:       newDescriptor(emptyType, empty),
		Subject:      &v1.Descriptor{MediaType: of.MediaType, Digest: of.Digest, Size: of.Size},
		Annotations: map[string]string{"dev.sigstore.bundle.content": "dsse-envelope",
			"dev.sigstore.bundle.predicateType": signatureType},
	}, empty, bundleType)
	if err != nil {
		return err
	}
	return image.AppendToLayout(dir, signature, nil)
}

const (
	helmConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	helmContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartEdits are the places of the chart that a release fills in.
func (r *release) chartEdits() map[string][][2]string {
	tag := strings.TrimPrefix(r.image, r.repository+":")
	return map[string][][2]string{
		"Chart.yaml": {{`(?m)^version: .*$`, "version: " + chartVersion(r.version)},
			{`(?m)^appVersion: .*$`, "appVersion: " + r.version}},
		"values.yaml": {{`(?m)^(image:\n(?:  .*\n)*?  repository:) .*$`, "${1} " + r.repository},
			{`(?m)^(image:\n(?:  .*\n)*?  tag:) .*$`, "${1} " + tag}},
	}
}

// chartVersion is a version as Helm writes it.
func chartVersion(version string) string { return strings.TrimPrefix(version, "v") }

func chartFile(version string) string { return "csenv-" + chartVersion(version) + ".tgz" }

// packChart packs charts/csenv for helm install, and as an OCI artefact.
func (r *release) packChart(context.Context) error {
	files, err := filesBelow(filepath.Join(r.source, "charts", "csenv"), "csenv")
	if err != nil {
		return fmt.Errorf("the commit has no chart in charts/csenv: %w", err)
	}
	var metadata []byte
	for i, file := range files {
		for _, edit := range r.chartEdits()[strings.TrimPrefix(file.Path, "csenv/")] {
			place := regexp.MustCompile(edit[0])
			if found := len(place.FindAllIndex(file.Content, -1)); found != 1 {
				return fmt.Errorf("charts/%s: %d places match %s, want 1", file.Path, found, edit[0])
			}
			files[i].Content = place.ReplaceAll(files[i].Content, []byte(edit[1]))
		}
		if file.Path == "csenv/Chart.yaml" {
			if metadata, err = yaml.YAMLToJSON(files[i].Content); err != nil {
				return err
			}
		}
	}
	packed, err := packTarGz(files, r.created)
	if err != nil {
		return err
	}
	if err := r.write(chartFile(r.version), packed); err != nil {
		return err
	}
	chart, err := newArtefact(packed,
		v1.Manifest{Annotations: r.annotations(), Config: newDescriptor(helmConfig, metadata)}, metadata, helmContent)
	if err != nil {
		return err
	}
	return r.writeLayout(chartFolder, chart, map[string]string{refNameAnnotation: chartVersion(r.version)})
}
