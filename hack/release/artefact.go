package main

import (
	"bytes"
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
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
	manifest.Layers = []v1.Descriptor{newDescriptor(mediaType, content)}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(artefactImage{manifest: raw, config: config,
		layer: static.NewLayer(content, mediaType)})
}

func newDescriptor(mediaType types.MediaType, content []byte) v1.Descriptor {
	hash, size, _ := v1.SHA256(bytes.NewReader(content)) // a reader of bytes doesn't fail
	return v1.Descriptor{MediaType: mediaType, Digest: hash, Size: size}
}
