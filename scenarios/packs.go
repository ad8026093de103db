package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Pack is a folder of scenario files, either nested (tickets/*.yaml, workflows/*.yaml, kb/*.md,
// names/*.yaml) or flat, as the mount of a ConfigMap or a Secret is, where files are told apart by
// their kind. FS may belong to somebody else: what is read of it is bounded.
type Pack struct {
	// Name stands before the names of its files in errors and findings, as a path does.
	Name string
	FS   fs.FS
}

// PublicPack is the pack that is part of this program.
func PublicPack() Pack { return Pack{Name: "scenarios", FS: embedded} }

// PackInfo is what a pack says of itself in pack.yaml.
type PackInfo struct {
	// Name is the pack's own, or that under which it was loaded.
	Name    string
	Version int // 0 where the pack doesn't say
	// Folder is the name under which it was loaded.
	Folder string
}

const manifestFile = "pack.yaml"

// manifest is pack.yaml.
type manifest struct {
	Name    string `yaml:"name"`
	Version int    `yaml:"version"`
	// Salt goes into every random stream of the pack, so that nobody without it can compute its
	// instances.
	Salt secret `yaml:"salt,optional"`
	Pos  position
}

// secret is text that no message quotes.
type secret string

func (s *secret) fromYAML(d *decoder, n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		d.failf(n, "want quoted text here")
		return
	}
	*s = secret(n.Value)
}

// publicSalt goes into every random stream of a pack without a salt of its own.
const publicSalt = "csenv/public"

// The bounds of a salt, in bytes. The digest of a catalogue is public and covers the salt, so a
// salt must not be one that can be found by trying.
const minSalt, maxSalt = 16, 256

// The bounds of what is read of a pack.
const (
	maxFileBytes = 256 << 10
	maxPackFiles = 2000
	maxPackBytes = 16 << 20
)

// openPack is a pack that is being loaded.
type openPack struct {
	Pack
	info     PackInfo
	salt     string
	names    map[string]*nameList
	articles map[string]*article
	// base is the pack whose articles and names stand in for those that this one hasn't, nil for
	// the base itself.
	base *openPack
}

// nameList is the pack's own list, or the base's, or nil.
func (p *openPack) nameList(id string) *nameList {
	if list := p.names[id]; list != nil || p.base == nil {
		return list
	}
	return p.base.names[id]
}

// article is the pack's own, or the base's, or nil.
func (p *openPack) article(id string) *article {
	if a := p.articles[id]; a != nil || p.base == nil {
		return a
	}
	return p.base.articles[id]
}

// source is a file of a pack.
type source struct {
	// folder is where the file belongs, wherever it lies: names, kb, tickets or workflows.
	folder, id string
	// file is its path for messages.
	file string
	data []byte
}

// canonical is the file's path in a nested pack, so that the layout does not count in the digest.
func (s source) canonical() string {
	if s.folder == "kb" {
		return "kb/" + s.id + ".md"
	}
	return s.folder + "/" + s.id + ".yaml"
}

// folders lists the folders of a pack in the order in which they are read.
func folders() []string { return []string{"names", "kb", "tickets", "workflows"} }

// packReader reads the files of one pack within its bounds.
type packReader struct {
	Pack
	files, bytes int
	errs         []error
}

func (r *packReader) failf(name, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: "+format, append([]any{path.Join(r.Name, name)}, args...)...))
}

// read returns the pack's files in the order of their folders and ids, and the content of
// pack.yaml, nil where there is none.
func (r *packReader) read() (sources []source, manifest []byte) {
	entries := r.entries(".")
	nested := false
	for _, name := range entries {
		if name == manifestFile {
			manifest = r.file(name)
		}
		nested = nested || slices.Contains(folders(), name)
	}
	if nested {
		for _, folder := range folders() {
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
	slices.SortStableFunc(sources, func(a, b source) int {
		return slices.Index(folders(), a.folder) - slices.Index(folders(), b.folder)
	})
	return sources, manifest
}

// entries lists a folder without its hidden files, among which are the links by which Kubernetes
// swaps a volume's content.
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

// folder reads one of the four folders of a nested pack.
func (r *packReader) folder(folder string) []source {
	ext := ".yaml"
	if folder == "kb" {
		ext = ".md"
	}
	var sources []source
	for _, entry := range r.entries(folder) {
		name := path.Join(folder, entry)
		id, ok := strings.CutSuffix(entry, ext)
		if !ok || r.isFolder(name) {
			r.failf(name, "unexpected here: %s holds files named <id>%s", folder, ext)
			continue
		}
		if data := r.file(name); data != nil {
			sources = append(sources, source{folder: folder, id: id, file: path.Join(r.Name, name), data: data})
		}
	}
	return sources
}

// flat reads a pack without folders.
func (r *packReader) flat(entries []string) []source {
	var sources []source
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
		s := source{folder: "kb", id: id, file: path.Join(r.Name, name), data: data}
		if ext == ".yaml" {
			s.folder = folderOf(data)
		}
		if s.folder == "" {
			r.failf(name, "what is this file? It needs a kind: TicketScenario, WorkflowScenario or NameList")
			continue
		}
		sources = append(sources, s)
	}
	return sources
}

// folderOf tells by its kind where a YAML file belongs, "" where that can't be told.
func folderOf(data []byte) string {
	var head struct {
		Kind string `yaml:"kind"`
	}
	_ = yaml.Unmarshal(data, &head) // the strict decoder says what is wrong with it, if it has a kind
	return map[string]string{"TicketScenario": "tickets", "WorkflowScenario": "workflows",
		"NameList": "names"}[head.Kind]
}

func (r *packReader) isFolder(name string) bool {
	info, err := fs.Stat(r.FS, name)
	return err == nil && info.IsDir()
}

// file reads a file, nil after a fault. A link counts as what it leads to.
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
	case info.Size() > maxFileBytes:
		r.failf(name, "the file has %d bytes: at most %d are allowed", info.Size(), maxFileBytes)
	case r.files > maxPackFiles || r.bytes > maxPackBytes:
		if r.files-1 <= maxPackFiles && r.bytes-int(info.Size()) <= maxPackBytes { // say it once
			r.failf(name, "the pack is too large: it may hold %d files and %d bytes", maxPackFiles, maxPackBytes)
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
func (p *openPack) manifest(data []byte) []error {
	p.info, p.salt = PackInfo{Name: p.Name, Folder: p.Name}, publicSalt
	if data == nil {
		return nil
	}
	d := &decoder{file: path.Join(p.Name, manifestFile)}
	var m manifest
	d.document(data, &m)
	if len(d.errs) > 0 {
		return d.errs
	}
	p.info = PackInfo{Name: m.Name, Version: m.Version, Folder: p.Name}
	if m.Salt != "" {
		p.salt = string(m.Salt)
	}
	if n := len(m.Salt); n > 0 && (n < minSalt || n > maxSalt) {
		return []error{m.Pos.errorf("salt has %d bytes: it needs %d to %d, random ones, such as those of `openssl "+
			"rand -hex 16`", n, minSalt, maxSalt)}
	}
	if m.Name == "" || m.Version < 1 {
		return []error{m.Pos.errorf("a pack has a name and a version of at least 1")}
	}
	return nil
}

// errNoPacks means that a catalogue was asked for without saying of what.
var errNoPacks = errors.New("no packs: name at least one")

// Splits are the parts of a catalogue, by the use that its scenarios are for.
func Splits() []string { return []string{"public-train", "public-dev", "public-test", "private"} }

// FolderName is the name in the pack.yaml of a folder of this machine, "" where it has none or a
// faulty one, which loading reports.
func FolderName(folder string) string {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return ""
	}
	defer root.Close()
	p := openPack{Pack: Pack{FS: root.FS()}}
	r := packReader{Pack: p.Pack}
	if data := r.file(manifestFile); data == nil || len(p.manifest(data)) > 0 {
		return ""
	}
	return p.info.Name
}

// LoadFolders reads the catalogue of the packs in some folders of this machine, beside the public
// pack or, where base isn't "", beside that folder instead. Links that lead out of a folder are not
// followed.
func LoadFolders(base string, folders ...string) (*Catalog, error) {
	if base == "" && len(folders) == 0 {
		return Public()
	}
	packs := []Pack{PublicPack()}
	if base != "" {
		packs, folders = nil, append([]string{base}, folders...)
	}
	for _, folder := range folders {
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, fmt.Errorf("opening the pack %s: %w: name a folder with scenario files", folder, err)
		}
		defer root.Close()
		packs = append(packs, Pack{Name: folder, FS: root.FS()})
	}
	return LoadPacks(packs...)
}
