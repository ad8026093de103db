package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const installFile = "install.yaml"

// renderManifests renders config/default with the image of the release.
func (r *release) renderManifests(context.Context) error {
	folder := filepath.Join(r.source, "config", "default")
	file := filepath.Join(folder, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var k types.Kustomization
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		return fmt.Errorf("reading config/default: %w", err)
	}
	named := func(i types.Image) bool { return i.Name == "csenv" }
	place := slices.IndexFunc(k.Images, named)
	if place < 0 {
		return fmt.Errorf("config/default sets no image csenv")
	}
	tag, digest, _ := strings.Cut(strings.TrimPrefix(r.image, r.repository+":"), "@")
	k.Images[place] = types.Image{Name: "csenv", NewName: r.repository, NewTag: tag, Digest: digest}
	if text, err = yaml.Marshal(k); err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return fmt.Errorf("building config/default: %w", err)
	}
	rendered, err := built.AsYaml()
	if err != nil {
		return err
	}
	if problem := wrongImages(rendered, r.image); problem != "" {
		return fmt.Errorf("config/default: %s", problem)
	}
	return r.write(installFile, rendered)
}

// imageLines are where manifests name images: of containers, and of the variable that names the
// image of servers and runners.
var imageLines = regexp.MustCompile(
	`(?m)^\s*(?:- )?image: "?([^"\s]+)"?$|- name: CSENV_IMAGE\n\s*value: "?([^"\s]+)"?$`)

// wrongImages returns what is wrong with the images in manifests that must all be one.
func wrongImages(manifests []byte, want string) string {
	found := imageLines.FindAllSubmatch(manifests, -1)
	for _, match := range found {
		if got := string(match[1]) + string(match[2]); got != want {
			return fmt.Sprintf("the image is %s, want %s", got, want)
		}
	}
	if len(found) < 2 {
		return fmt.Sprintf("%d images, want the operator's and CSENV_IMAGE", len(found))
	}
	return ""
}
