// Package pack reads the files of a scenario pack, within bounds on their number and size.
package pack

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/source"
)

// Pack is a folder of scenario files, either nested (tickets/*.yaml, workflows/*.yaml, kb/*.md,
// names/*.yaml) or flat, like the mount of a ConfigMap or a Secret, where files are recognised by
// their kind. FS may be untrusted: the number and size of the files are limited.
type Pack struct {
	// Name is the prefix of file names in errors and findings.
	Name string
	FS   fs.FS
}

// Info is the name and version of a pack, from pack.yaml.
type Info struct {
	// Name is the name in the manifest, or the name under which the pack was loaded.
	Name    string
	Version int // 0 if the pack has no version
	// Folder is the name under which it was loaded.
	Folder string
}

const manifestFile = "pack.yaml"

// manifest is pack.yaml.
type manifest struct {
	Name    string `yaml:"name"`
	Version int    `yaml:"version"`
	// Salt is part of the key of every random stream of the pack, so that its instances can't be
	// computed without it.
	Salt secret `yaml:"salt,optional"`
	Pos  source.Position
}

// secret is text that messages don't quote.
type secret string

func (s *secret) FromYAML(d *source.Decoder, n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		d.Failf(n, "want quoted text here")
		return
	}
	*s = secret(n.Value)
}

// publicSalt is the salt of packs without their own.
const publicSalt = "csenv/public"

// The bounds of a salt, in bytes. The digest of a catalogue is public and covers the salt, so a
// salt must be too long to be guessed.
const minSalt, maxSalt = 16, 256

// Limits of the files of a pack.
const (
	MaxFileBytes = 256 << 10
	MaxPackFiles = 2000
	maxPackBytes = 16 << 20
)

// File is a file of a pack.
type File struct {
	// Folder is the folder of the file in a nested pack.
	Folder, ID string
	// Path is the path for messages.
	Path string
	Data []byte
}

// Canonical returns the file's path in a nested pack, so that the layout doesn't affect the digest.
func (s File) Canonical() string {
	if s.Folder == "kb" {
		return "kb/" + s.ID + ".md"
	}
	return s.Folder + "/" + s.ID + ".yaml"
}

// folders are the folders of a pack in the order in which they are read.
var folders = []string{"names", "kb", "tickets", "workflows", "families", "modifiers"}

// packReader reads the files of one pack within the limits.
type packReader struct {
	Pack
	files, bytes int
	errs         []error
}

// Contents are the manifest and files of a pack.
type Contents struct {
	Info Info
	// Salt is part of the key of every random stream of the pack.
	Salt  string
	Files []File
}

// Read reads a pack's manifest and files, in the order of their folders and ids.
func Read(p Pack) (Contents, []error) {
	r := packReader{Pack: p}
	sources, manifest := r.read()
	out := Contents{Files: sources}
	out.Info, out.Salt = r.manifest(manifest)
	return out, r.errs
}

// ReadName returns the name in a pack's manifest, or "" if the manifest is missing or invalid.
func ReadName(p Pack) string {
	r := packReader{Pack: p}
	data := r.file(manifestFile)
	if data == nil {
		return ""
	}
	info, _ := r.manifest(data)
	if len(r.errs) > 0 {
		return ""
	}
	return info.Name
}

func (r *packReader) failf(name, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: "+format, append([]any{path.Join(r.Name, name)}, args...)...))
}

// read returns the pack's files in the order of their folders and ids, and the content of
// pack.yaml, or nil if it is missing.
func (r *packReader) read() (sources []File, manifest []byte) {
	entries := r.entries(".")
	nested := false
	for _, name := range entries {
		if name == manifestFile {
			manifest = r.file(name)
		}
		nested = nested || slices.Contains(folders, name)
	}
	if nested {
		for _, folder := range folders {
			if slices.Contains(entries, folder) {
				sources = append(sources, r.folder(folder)...)
			}
		}
	} else {
		sources = r.flat(entries)
	}
	if len(sources) == 0 && len(r.errs) == 0 {
		r.failf(".", "no scenario files: a pack has the folders tickets, workflows, kb and names, or the files "+
			"themselves (*.yaml and *.md)")
	}
	slices.SortStableFunc(sources, func(a, b File) int {
		return slices.Index(folders, a.Folder) - slices.Index(folders, b.Folder)
	})
	return sources, manifest
}

// entries lists a folder without its hidden files, among which are the links with which Kubernetes
// replaces a volume's content.
func (r *packReader) entries(folder string) []string {
	entries, err := fs.ReadDir(r.FS, folder)
	if err != nil {
		r.failf(folder, "reading the folder: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// folder reads one of the folders of a nested pack.
func (r *packReader) folder(folder string) []File {
	ext := ".yaml"
	if folder == "kb" {
		ext = ".md"
	}
	var sources []File
	for _, entry := range r.entries(folder) {
		name := path.Join(folder, entry)
		id, ok := strings.CutSuffix(entry, ext)
		if !ok || r.isFolder(name) {
			r.failf(name, "unexpected here: %s holds files named <id>%s", folder, ext)
			continue
		}
		if data := r.file(name); data != nil {
			sources = append(sources, File{Folder: folder, ID: id, Path: path.Join(r.Name, name), Data: data})
		}
	}
	return sources
}

// flat reads a pack without folders.
func (r *packReader) flat(entries []string) []File {
	var sources []File
	for _, name := range entries {
		id, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
		if name == manifestFile {
			continue
		}
		if ext != ".yaml" && ext != ".md" || r.isFolder(name) {
			r.failf(name, "unexpected here: a flat pack holds files named <id>.yaml and <id>.md")
			continue
		}
		data := r.file(name)
		if data == nil {
			continue
		}
		s := File{Folder: "kb", ID: id, Path: path.Join(r.Name, name), Data: data}
		if ext == ".yaml" {
			d := source.Decoder{File: s.Path}
			root := d.Root(data)
			if root == nil {
				r.errs = append(r.errs, d.Errs...)
				continue
			}
			if s.Folder = foldersByKind[source.KindAt(root)]; s.Folder == "" {
				r.failf(name, "unknown kind of file: set kind to TicketScenario, WorkflowScenario or NameList")
				continue
			}
		}
		sources = append(sources, s)
	}
	return sources
}

// foldersByKind are the folders of YAML files by their kind.
var foldersByKind = map[string]string{"TicketScenario": "tickets", "WorkflowScenario": "workflows", "NameList": "names",
	"CaseWorld": "names", "CaseReplies": "names", "CaseFamily": "families", "CaseList": "families",
	"CaseModifier": "modifiers"}

func (r *packReader) isFolder(name string) bool {
	info, err := fs.Stat(r.FS, name)
	return err == nil && info.IsDir()
}

// file reads a file. It returns nil after a fault. A link counts as its target.
func (r *packReader) file(name string) []byte {
	info, err := fs.Stat(r.FS, name)
	if err != nil {
		r.failf(name, "reading the file: %w", err)
		return nil
	}
	r.files++
	r.bytes += int(min(info.Size(), maxPackBytes+1))
	switch {
	case !info.Mode().IsRegular():
		r.failf(name, "not a plain file")
	case info.Size() > MaxFileBytes:
		r.failf(name, "the file has %d bytes: at most %d are allowed", info.Size(), MaxFileBytes)
	case r.files > MaxPackFiles || r.bytes > maxPackBytes:
		if r.files-1 <= MaxPackFiles && r.bytes-int(info.Size()) <= maxPackBytes { // report it once
			r.failf(name, "the pack is too large: it may hold %d files and %d bytes", MaxPackFiles, maxPackBytes)
		}
	default:
		data, err := fs.ReadFile(r.FS, name)
		if err != nil {
			r.failf(name, "reading the file: %w", err)
		}
		return data
	}
	return nil
}

// manifest decodes pack.yaml.
func (r *packReader) manifest(data []byte) (info Info, salt string) {
	info, salt = Info{Name: r.Name, Folder: r.Name}, publicSalt
	if data == nil {
		return info, salt
	}
	d := &source.Decoder{File: path.Join(r.Name, manifestFile)}
	var m manifest
	d.Document(data, &m)
	if len(d.Errs) > 0 {
		r.errs = append(r.errs, d.Errs...)
		return info, salt
	}
	if m.Salt != "" {
		salt = string(m.Salt)
	}
	if n := len(m.Salt); n > 0 && (n < minSalt || n > maxSalt) {
		r.errs = append(r.errs, m.Pos.Errorf("salt has %d bytes: it needs %d to %d, random ones, such as the output "+
			"of `openssl rand -hex 16`", n, minSalt, maxSalt))
	} else if m.Name == "" || m.Version < 1 {
		r.errs = append(r.errs, m.Pos.Errorf("a pack has a name and a version of at least 1"))
	}
	return Info{Name: m.Name, Version: m.Version, Folder: r.Name}, salt
}
