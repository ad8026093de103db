package scenarios

import (
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"

	"github.com/csenv/csenv/scenarios/expr"
	"go.yaml.in/yaml/v3"
)

// digester hashes what is served or graded. YAML is hashed by content: mappings in the order of
// their keys, so that neither layout nor comments count.
type digester struct {
	hash.Hash
}

// String is "sha256:<hex>" over what was hashed so far.
func (d digester) String() string { return "sha256:" + hex.EncodeToString(d.Sum(nil)) }

// ungraded are the paths that neither an agent sees nor a grader uses.
func ungraded(path string) bool {
	return slices.Contains([]string{
		".metadata.canary", ".metadata.authors", ".metadata.reviewedBy", ".metadata.issues", ".metadata.hardness",
		".metadata.cue",
		".gold.priority.rule", ".reply.facts[].shown", ".facts[].shown", ".references", ".forbidden[].why",
	}, path)
}

// text hashes a text with its length, so that no two lists of texts hash alike. A hash's Write
// never fails.
func (d digester) text(s string) {
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
	_, _ = d.Write([]byte(s))
}

func (d digester) node(n *yaml.Node, path string) {
	switch {
	case ungraded(path):
	case n.Kind == yaml.MappingNode:
		d.mapping(n, path)
	case n.Kind == yaml.SequenceNode:
		d.text("[")
		for _, c := range n.Content {
			d.node(c, path+"[]")
		}
		d.text("]")
	default:
		d.text(n.Tag)
		d.text(n.Value)
	}
}

func (d digester) mapping(n *yaml.Node, path string) {
	byKey := map[string]*yaml.Node{}
	var names []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
		byKey[n.Content[i].Value] = n.Content[i+1]
	}
	slices.Sort(names)
	d.text("{")
	for _, name := range names {
		if p := path + "." + name; !ungraded(p) {
			d.text(name)
			d.node(byKey[name], p)
		}
	}
	d.text("}")
}

func (d digester) article(a *article) {
	d.text(a.title)
	d.text(a.body.Text)
	for _, p := range a.params {
		d.text(p.name)
		d.text(strconv.FormatInt(expr.Native[int64](p.value), 10))
	}
}
