// Command crdcompat compares the CRDs with the previous release's. It fails if objects or
// clients of that release would no longer fit.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/hack/previous"
)

// bases is the folder of the CRDs.
const bases = "config/crd/bases"

func main() {
	breaks, err := findBreaks(context.Background())
	switch {
	case errors.Is(err, previous.ErrNoHistory) && !previous.IsHistoryRequired():
		fmt.Fprintln(os.Stderr, "crdcompat: not checked:", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, "crdcompat:", err)
		os.Exit(1)
	case len(breaks) > 0:
		fmt.Fprintln(os.Stderr, "crdcompat: these changes break objects or clients of the previous release. "+
			"docs/upgrading.md says how a field may be replaced:")
		for _, b := range breaks {
			fmt.Fprintln(os.Stderr, " ", b)
		}
		os.Exit(1)
	}
}

// findBreaks lists the incompatible changes since the previous release.
func findBreaks(ctx context.Context) ([]string, error) {
	release, err := previous.FindRelease(ctx, ".")
	if err != nil {
		return nil, err
	}
	files, err := release.Files(ctx, bases)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no CRDs in %s", release.Name, bases)
	}
	var breaks []string
	for name, data := range files {
		before, err := parseCRD(data)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", name, release.Name, err)
		}
		data, err := os.ReadFile(filepath.Join(bases, name))
		if errors.Is(err, os.ErrNotExist) {
			breaks = append(breaks, name+" is removed")
			continue
		} else if err != nil {
			return nil, err
		}
		after, err := parseCRD(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		breaks = append(breaks, compareCRDs(before, after)...)
	}
	return breaks, nil
}

func parseCRD(data []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.UnmarshalStrict(data, crd)
}
