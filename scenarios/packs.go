package scenarios

import (
	"errors"
	"os"

	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
)

// PublicPack is the pack that is part of this program.
func PublicPack() pack.Pack { return pack.Pack{Name: "scenarios", FS: embedded} }

// openPack is a pack that is being loaded.
type openPack struct {
	info     pack.Info
	salt     string
	names    map[string]*params.NameList
	articles map[string]*article
	// base is the pack that provides articles and names that this one lacks, nil for
	// the base itself.
	base *openPack
}

// nameList is the pack's own list, or the base's, or nil.
func (p *openPack) nameList(id string) *params.NameList {
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

// errNoPacks means that a catalogue was asked for without saying of what.
var errNoPacks = errors.New("no packs: name at least one")

// Splits are the parts of a catalogue, by the use that its scenarios are for.
func Splits() []string { return []string{"public-train", "public-dev", "public-test", "private"} }

// FolderName returns the name in the pack.yaml of a folder, "" for none or a faulty one, which
// loading reports.
func FolderName(folder string) string {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return ""
	}
	defer root.Close()
	return pack.ReadName(pack.Pack{FS: root.FS()})
}
