package scenarios

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/expr"
)

// digester hashes served and graded content. YAML is hashed by content, with mappings in the order
// of their keys, so that layout and comments don't count.
type digester struct {
	hash.Hash
}

func newDigester() digester { return digester{sha256.New()} }

// hashPacks hashes compiled packs after the pack of an index, which may be nil.
func hashPacks(x *index, packs []*openPack) (digester, error) {
	d := newDigester()
	if x != nil {
		if err := d.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(x.Digest); err != nil {
			return d, fmt.Errorf("reading the index of the public pack: %w", err)
		}
	}
	for _, p := range packs {
		d.addText(p.salt)
		for _, doc := range p.documents {
			d.addText(doc.Canonical())
			if doc.Folder == "kb" {
				d.addArticle(p.articles.find(doc.ID))
			} else {
				d.addNode(doc.root, "")
			}
		}
	}
	return d, nil
}

// String returns "sha256:<hex>" over the content so far.
func (d digester) String() string { return "sha256:" + hex.EncodeToString(d.Sum(nil)) }

// isUngraded reports whether the content at the path is neither served nor graded.
func isUngraded(path string) bool {
	return slices.Contains([]string{
		".metadata.canary", ".metadata.authors", ".metadata.reviewedBy", ".metadata.issues", ".metadata.hardness",
		".metadata.cue",
		".gold.priority.rule", ".reply.facts[].shown", ".facts[].shown", ".references", ".forbidden[].why",
	}, path)
}

// addText hashes a text with its length, so that different lists of texts have different hashes. A
// hash's Write never fails.
func (d digester) addText(s string) {
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
	_, _ = d.Write([]byte(s))
}

func (d digester) addNode(n *yaml.Node, path string) {
	switch {
	case isUngraded(path):
	case n.Kind == yaml.MappingNode:
		d.addMapping(n, path)
	case n.Kind == yaml.SequenceNode:
		d.addText("[")
		for _, c := range n.Content {
			d.addNode(c, path+"[]")
		}
		d.addText("]")
	default:
		d.addText(n.Tag)
		d.addText(n.Value)
	}
}

func (d digester) addMapping(n *yaml.Node, path string) {
	byKey := map[string]*yaml.Node{}
	var names []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
		byKey[n.Content[i].Value] = n.Content[i+1]
	}
	slices.Sort(names)
	d.addText("{")
	for _, name := range names {
		if p := path + "." + name; !isUngraded(p) {
			d.addText(name)
			d.addNode(byKey[name], p)
		}
	}
	d.addText("}")
}

func (d digester) addArticle(a *article) {
	d.addText(a.title)
	d.addText(a.body.Text)
	for _, p := range a.params {
		d.addText(p.name)
		d.addText(strconv.FormatInt(expr.ToNative[int64](p.value), 10))
	}
}
