package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/mod/semver"

	"github.com/csenv/csenv/hack/image"
)

// pythonPackages are the folders with Python packages.
var pythonPackages = []string{"python", "python/openenv-customer-support-env"}

// pyproject is the used part of a pyproject.toml.
type pyproject struct {
	Project struct {
		Name, Version, Description, Readme, License string

		RequiresPython string              `toml:"requires-python"`
		Dependencies   []string            `toml:"dependencies"`
		Optional       map[string][]string `toml:"optional-dependencies"`
		Keywords       []string            `toml:"keywords"`
		URLs           map[string]string   `toml:"urls"`
	} `toml:"project"`
	Tool struct {
		Hatch struct {
			Build struct {
				Targets struct {
					Wheel struct {
						Packages []string `toml:"packages"`
					} `toml:"wheel"`
				} `toml:"targets"`
			} `toml:"build"`
		} `toml:"hatch"`
	} `toml:"tool"`
}

var (
	versionLine   = regexp.MustCompile(`(?m)^version = ".*"$`)
	preRelease    = regexp.MustCompile(`^-(alpha|beta|rc)\.?(\d+)$`)
	pythonLetters = map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}
)

// pythonVersion is a version as Python's packages write it (PEP 440). A pre-release with another
// name than alpha, beta or rc becomes a development release with a local part.
func pythonVersion(version string) string {
	base, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(version, semver.Build(version)), "v"), "-")
	pre := semver.Prerelease(version)
	if pre == "" {
		return base
	}
	if found := preRelease.FindStringSubmatch(pre); found != nil {
		return base + pythonLetters[found[1]] + found[2]
	}
	local := strings.FieldsFunc(strings.ToLower(pre), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return base + ".dev0+" + strings.Join(local, ".")
}

func (r *release) packPythonPackage(folder string) error {
	described, err := os.ReadFile(filepath.Join(folder, "pyproject.toml"))
	if err != nil {
		return err
	}
	if found := len(versionLine.FindAll(described, -1)); found != 1 {
		return fmt.Errorf("pyproject.toml has %d lines with a version, want 1", found)
	}
	version := pythonVersion(r.version)
	described = versionLine.ReplaceAll(described, []byte(`version = "`+version+`"`))
	var p pyproject
	if err := toml.Unmarshal(described, &p); err != nil {
		return fmt.Errorf("pyproject.toml: %w", err)
	}
	metadata, err := p.metadata(folder)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return err
	}
	var modules []image.File
	for _, name := range p.Tool.Hatch.Build.Targets.Wheel.Packages {
		files, err := filesBelow(filepath.Join(folder, name), name)
		if err != nil {
			return err
		}
		modules = append(modules, files...)
	}
	stem := strings.ReplaceAll(p.Project.Name, "-", "_") + "-" + version
	if err := r.packWheel(stem, modules, metadata, license); err != nil {
		return err
	}
	files := slices.Concat(modules, []image.File{
		{Path: "pyproject.toml", Content: described, Mode: 0o644},
		{Path: "PKG-INFO", Content: metadata, Mode: 0o644},
		{Path: "LICENSE", Content: license, Mode: 0o644},
	})
	if p.Project.Readme != "" {
		text, err := os.ReadFile(filepath.Join(folder, p.Project.Readme))
		if err != nil {
			return err
		}
		files = append(files, image.File{Path: p.Project.Readme, Content: text, Mode: 0o644})
	}
	for i := range files {
		files[i].Path = stem + "/" + files[i].Path
	}
	packed, err := packTarGz(files, r.created)
	if err != nil {
		return err
	}
	return r.write(stem+".tar.gz", packed)
}

// metadata is the package's core metadata, version 2.4.
func (p pyproject) metadata(folder string) ([]byte, error) {
	var text bytes.Buffer
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	line("Metadata-Version", "2.4")
	line("Name", p.Project.Name)
	line("Version", p.Project.Version)
	line("Summary", p.Project.Description)
	for _, name := range slices.Sorted(maps.Keys(p.Project.URLs)) {
		line("Project-URL", name+", "+p.Project.URLs[name])
	}
	line("License-Expression", p.Project.License)
	line("License-File", "LICENSE")
	line("Keywords", strings.Join(p.Project.Keywords, ","))
	line("Requires-Python", p.Project.RequiresPython)
	for _, needed := range p.Project.Dependencies {
		line("Requires-Dist", needed)
	}
	for _, extra := range slices.Sorted(maps.Keys(p.Project.Optional)) {
		line("Provides-Extra", extra)
		for _, needed := range p.Project.Optional[extra] {
			line("Requires-Dist", needed+" ; extra == '"+extra+"'")
		}
	}
	if p.Project.Readme == "" {
		return text.Bytes(), nil
	}
	line("Description-Content-Type", "text/markdown")
	readme, err := os.ReadFile(filepath.Join(folder, p.Project.Readme))
	if err != nil {
		return nil, err
	}
	text.WriteString("\n")
	text.Write(readme)
	return text.Bytes(), nil
}

// packWheel writes a wheel, as PyPA's specification of the binary distribution format has it.
func (r *release) packWheel(stem string, modules []image.File, metadata, license []byte) error {
	about := stem + ".dist-info/"
	files := append(slices.Clone(modules),
		image.File{Path: about + "METADATA", Content: metadata},
		image.File{Path: about + "WHEEL",
			Content: []byte("Wheel-Version: 1.0\nGenerator: csenv\nRoot-Is-Purelib: true\nTag: py3-none-any\n")},
		image.File{Path: about + "licenses/LICENSE", Content: license})
	var record bytes.Buffer
	for _, file := range files {
		sum := sha256.Sum256(file.Content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", file.Path, base64.RawURLEncoding.EncodeToString(sum[:]),
			len(file.Content))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", about)
	files = append(files, image.File{Path: about + "RECORD", Content: record.Bytes()})
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, file := range files {
		header := &zip.FileHeader{Name: file.Path, Method: zip.Deflate, Modified: r.created.UTC()}
		header.SetMode(0o644)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(file.Content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return r.write(stem+"-py3-none-any.whl", packed.Bytes())
}
