package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artefactImage is an OCI artefact of one layer: a chart or a signature.
type artefactImage struct {
	manifest, config []byte
	layer            v1.Layer
}

func (a artefactImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a artefactImage) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a artefactImage) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a artefactImage) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) {
	return a.layer, nil
}

// newArtefact completes a manifest that has a config with the one layer that it describes.
func newArtefact(content []byte, manifest v1.Manifest, config []byte, mediaType types.MediaType) (v1.Image, error) {
	manifest.SchemaVersion, manifest.MediaType = 2, types.OCIManifestSchema1
	manifest.Layers = []v1.Descriptor{descriptor(mediaType, content)}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(artefactImage{manifest: raw, config: config,
		layer: static.NewLayer(content, mediaType)})
}

func descriptor(mediaType types.MediaType, content []byte) v1.Descriptor {
	hash, size, _ := v1.SHA256(bytes.NewReader(content)) // a reader of bytes doesn't fail
	return v1.Descriptor{MediaType: mediaType, Digest: hash, Size: size}
}

// push pushes image and chart with their signatures, and returns their references.
func push(ctx context.Context, dir, chart string) ([]string, error) {
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
