package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/csenv/csenv/hack/image"
)

// program is a binary that an SBOM describes.
type program struct {
	name   string
	sha256 string
	info   *debug.BuildInfo
}

func readProgram(name string, content []byte) (program, error) {
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return program{}, fmt.Errorf("reading the modules of %s: %w", name, err)
	}
	sum := sha256.Sum256(content)
	return program{name: name, sha256: hex.EncodeToString(sum[:]), info: info}, nil
}

// modules returns what the program was made of: the modules that replaced others, and Go itself.
func (p program) modules() []debug.Module {
	modules := make([]debug.Module, 0, 1+len(p.info.Deps))
	modules = append(modules, debug.Module{Path: "stdlib", Version: strings.TrimPrefix(p.info.GoVersion, "go")})
	for _, m := range p.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, *m)
	}
	return modules
}

// bill is the content of an SBOM, whatever its format.
type bill struct {
	name     string // of what is described, such as csenv_v1.2.3_linux_amd64
	version  string
	created  time.Time
	programs []program
}

// modules are the modules of all programs, each once.
func (b bill) modules() []debug.Module {
	var all []debug.Module
	for _, p := range b.programs {
		all = append(all, p.modules()...)
	}
	byURL := func(a, b debug.Module) int { return strings.Compare(packageURL(a), packageURL(b)) }
	slices.SortFunc(all, byURL)
	return slices.CompactFunc(all, func(a, b debug.Module) bool { return byURL(a, b) == 0 })
}

// id depends on what is described, so that the same programs have the same SBOM.
func (b bill) id() string {
	text := []byte(b.name)
	for _, p := range b.programs {
		text = append(text, " "+p.sha256...)
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, text).String()
}

// packageURL names a module for the databases of vulnerabilities.
func packageURL(m debug.Module) string {
	name := "pkg:golang/" + m.Path
	if m.Version != "" {
		name += "@" + strings.ReplaceAll(url.PathEscape(m.Version), "+", "%2B")
	}
	return name
}

func (b bill) cycloneDX() ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + b.id()
	kind := cyclonedx.ComponentTypeApplication
	if strings.HasPrefix(b.name, "csenv-image_") {
		kind = cyclonedx.ComponentTypeContainer
	}
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.created.Format(time.RFC3339), Component: &cyclonedx.Component{
		BOMRef: b.name, Type: kind, Name: b.name, Version: b.version}}
	all := b.modules()
	components := make([]cyclonedx.Component, 0, len(b.programs)+len(all))
	dependencies := make([]cyclonedx.Dependency, 0, 1+len(b.programs))
	dependencies = append(dependencies, cyclonedx.Dependency{Ref: b.name, Dependencies: &[]string{}})
	for _, p := range b.programs {
		ref := "program/" + p.name
		components = append(components, cyclonedx.Component{BOMRef: ref, Type: cyclonedx.ComponentTypeApplication,
			Name: p.name, Version: b.version,
			PackageURL: packageURL(debug.Module{Path: p.info.Main.Path, Version: b.version}),
			Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: p.sha256}}})
		*dependencies[0].Dependencies = append(*dependencies[0].Dependencies, ref)
		modules := p.modules()
		of := make([]string, len(modules))
		for i, m := range modules {
			of[i] = packageURL(m)
		}
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: ref, Dependencies: &of})
	}
	for _, m := range all {
		component := cyclonedx.Component{BOMRef: packageURL(m), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path,
			Version: m.Version, PackageURL: packageURL(m)}
		if m.Sum != "" {
			// CycloneDX hashes a file; go.sum hashes a list of files.
			component.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components = append(components, component)
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	var text bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).
		EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return text.Bytes(), err
}

const (
	noAssertion = "NOASSERTION"
	spdxRoot    = "Package-csenv"
)

func (b bill) spdx() ([]byte, error) {
	document := v2_3.Document{SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: b.name, DocumentNamespace: "https://csenv.dev/sbom/" + b.name + "-" + b.id(),
		CreationInfo: &v2_3.CreationInfo{Created: b.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "csenv"}}}}
	relate := func(a string, relationship string, to string) {
		document.Relationships = append(document.Relationships, &v2_3.Relationship{
			RefA: common.DocElementID{ElementRefID: common.ElementID(a)}, Relationship: relationship,
			RefB: common.DocElementID{ElementRefID: common.ElementID(to)}})
	}
	root := spdxPackage(spdxRoot, b.name, b.version)
	document.Packages = append(document.Packages, root)
	relate("DOCUMENT", common.TypeRelationshipDescribe, spdxRoot)
	for _, p := range b.programs {
		id := "Program-" + p.name
		described := spdxPackage(id, p.name, b.version)
		described.PrimaryPackagePurpose = "APPLICATION"
		described.PackageLicenseDeclared = "Apache-2.0"
		described.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.sha256}}
		document.Packages = append(document.Packages, described)
		relate(spdxRoot, common.TypeRelationshipContains, id)
		for _, m := range p.modules() {
			relate(id, common.TypeRelationshipDependsOn, spdxID(m))
		}
	}
	for _, m := range b.modules() {
		described := spdxPackage(spdxID(m), m.Path, m.Version)
		described.PackageComment = m.Sum
		described.PackageExternalReferences = []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: packageURL(m)}}
		document.Packages = append(document.Packages, described)
	}
	return json.MarshalIndent(document, "", "  ")
}

func spdxPackage(id, name, version string) *v2_3.Package {
	return &v2_3.Package{PackageSPDXIdentifier: common.ElementID(id), PackageName: name, PackageVersion: version,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion,
		PackageCopyrightText: noAssertion}
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func spdxID(m debug.Module) string {
	return "Module-" + notInID.ReplaceAllString(m.Path+"-"+m.Version, "-")
}

// sboms writes both formats, by file extension.
func (b bill) sboms() (map[string][]byte, error) {
	spdx, err := b.spdx()
	if err != nil {
		return nil, err
	}
	cyclone, err := b.cycloneDX()
	return map[string][]byte{".spdx.json": spdx, ".cdx.json": cyclone}, err
}

func (r *release) writeBill(name, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	b, err := newBill(name, r.version, r.created, []image.File{{Path: "csenv", Content: content}})
	if err != nil {
		return err
	}
	texts, err := b.sboms()
	if err != nil {
		return err
	}
	for extension, text := range texts {
		if err := r.write(name+extension, text); err != nil {
			return err
		}
	}
	return nil
}

func newBill(name, version string, created time.Time, files []image.File) (bill, error) {
	b := bill{name: name, version: version, created: created}
	for _, file := range files {
		p, err := readProgram(filepath.Base(file.Path), file.Content)
		if err != nil {
			return bill{}, err
		}
		b.programs = append(b.programs, p)
	}
	slices.SortFunc(b.programs, func(x, y program) int { return strings.Compare(x.name, y.name) })
	return b, nil
}
