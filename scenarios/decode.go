package scenarios

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// decoder reads YAML nodes into the file structs strictly: every key must be known and every field
// present unless its tag says optional. It goes on after a fault, so that all faults of a file are
// reported together.
//
// Field tags: `yaml:"name"` or `yaml:"name,optional"`, and `enum:"a|b|c"` on strings and lists of
// strings.
type decoder struct {
	file string
	errs []error
}

// fromYAML is implemented by field types with a form of their own.
type fromYAML interface {
	fromYAML(d *decoder, n *yaml.Node)
}

// position is where a value stands, for messages.
type position struct {
	file string
	line int
}

func (p position) String() string { return p.file + ":" + strconv.Itoa(p.line) }

func (p position) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{p}, args...)...)
}

func (d *decoder) at(n *yaml.Node) position { return position{d.file, n.Line} }

func (d *decoder) failf(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, d.at(n).errorf(format, args...))
}

// document decodes the one document of a file.
func (d *decoder) document(data []byte, into any) {
	root := d.root(data)
	if root != nil {
		d.value(root, reflect.ValueOf(into).Elem(), "")
	}
}

// root parses a file and returns its only document's content, nil after a fault.
func (d *decoder) root(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s: reading YAML: %w", d.file, err))
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		d.failf(&second, "a second document: keep one per file")
		return nil
	case !errors.Is(err, io.EOF):
		// The parser names the line.
		d.errs = append(d.errs, fmt.Errorf("%s: reading what follows the first document: %w", d.file, err))
		return nil
	}
	root := doc.Content[0]
	if !d.plain(root) {
		return nil
	}
	return root
}

// plain refuses anchors, aliases and duplicate keys: an alias could make a small file huge, and the
// second of two keys would silently win.
func (d *decoder) plain(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.failf(n, "anchors and aliases are not allowed: write the value out")
		return false
	}
	ok := true
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Kind != yaml.ScalarNode {
				d.failf(c, "a key must be text")
				return false
			}
			if seen[c.Value] {
				d.failf(c, "key %q is given twice", c.Value)
				ok = false
			}
			seen[c.Value] = true
		}
		ok = d.plain(c) && ok
	}
	return ok
}

func (d *decoder) value(n *yaml.Node, v reflect.Value, enum string) {
	if custom, ok := reflect.TypeAssert[fromYAML](v.Addr()); ok {
		custom.fromYAML(d, n)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, v)
	case reflect.Slice:
		d.sequence(n, v, enum)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), enum)
	case reflect.String:
		d.text(n, v, enum)
	case reflect.Int, reflect.Int64:
		d.integer(n, v)
	case reflect.Bool:
		d.boolean(n, v)
	default:
		panic("scenarios: no YAML form for " + v.Type().String())
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.failf(n, "want a mapping with the keys %s, got %s", strings.Join(keys(v.Type()), ", "), describe(n))
		return
	}
	present := map[string]*yaml.Node{}
	known := keys(v.Type())
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.Contains(known, key.Value) {
			d.failf(key, "unknown key %q%s", key.Value, suggest(key.Value, known))
		}
		present[key.Value] = n.Content[i+1]
	}
	d.fields(n, present, v)
}

func (d *decoder) fields(n *yaml.Node, present map[string]*yaml.Node, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.Anonymous:
			d.fields(n, present, v.Field(i))
		case f.IsExported():
			d.field(n, present, v.Field(i), f)
		}
	}
}

func (d *decoder) field(parent *yaml.Node, present map[string]*yaml.Node, v reflect.Value, f reflect.StructField) {
	name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	switch n := present[name]; {
	case name == "":
		v.Set(reflect.ValueOf(d.at(parent)))
	case n != nil:
		d.value(n, v, f.Tag.Get("enum"))
	case rest != "optional":
		d.failf(parent, "missing key %q", name)
	}
}

// keys lists the YAML keys of a file struct in the order of its fields. The one field without a tag
// receives the position.
func keys(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, keys(f.Type)...)
		} else if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, enum string) {
	if n.Kind != yaml.SequenceNode {
		d.failf(n, "want a list, got %s", describe(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.value(c, out.Index(i), enum)
	}
	v.Set(out)
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, enum string) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		d.failf(n, "want text, got %s", describe(n))
		return
	}
	if strings.Contains(n.Value, "{{") {
		d.failf(n, "this text is taken as it stands: {{ }} is not rendered here")
	}
	if allowed := strings.Split(enum, "|"); enum != "" && !slices.Contains(allowed, n.Value) {
		d.failf(n, "%q is not one of %s%s", n.Value, strings.Join(allowed, ", "), suggest(n.Value, allowed))
	}
	v.SetString(n.Value)
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value) {
	i, err := wholeNumber(n)
	if err != nil {
		d.failf(n, "%v", err)
		return
	}
	v.SetInt(i)
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		d.failf(n, "want true or false, got %s", describe(n))
		return
	}
	v.SetBool(n.Value == "true")
}

// wholeNumber reads a YAML integer; a float gets the advice that every unit of the schema is whole.
func wholeNumber(n *yaml.Node) (int64, error) {
	if n.Tag == "!!float" {
		return 0, fmt.Errorf("want a whole number, got %s: points, credits and caps are thousandths (0.5 is 500), "+
			"money is quoted text (\"49.00\")", n.Value)
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, fmt.Errorf("want a whole number, got %s", describe(n))
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("want a decimal whole number, got %q", n.Value)
	}
	return i, nil
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return strconv.Quote(n.Value)
	}
}

// ordered is a mapping whose keys are the author's own, in the order of the file.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Pos   position
	Value T `yaml:"-"`
}

func (o *ordered[T]) fromYAML(d *decoder, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.failf(n, "want a mapping, got %s", describe(n))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		e := entry[T]{Name: n.Content[i].Value, Pos: d.at(n.Content[i])}
		d.value(n.Content[i+1], reflect.ValueOf(&e.Value).Elem(), "")
		*o = append(*o, e)
	}
}

// raw is a scalar that may hold templates, or a literal of another type.
type raw struct {
	text string
	tag  string // YAML's: !!str, !!int, !!bool
	pos  position
	// block is set for | and > texts, whose first line is the one after pos.
	block bool
}

func (r *raw) fromYAML(d *decoder, n *yaml.Node) {
	r.pos = d.at(n)
	if n.Kind != yaml.ScalarNode || !slices.Contains([]string{"!!str", "!!int", "!!bool"}, n.Tag) {
		d.failf(n, "want text, a whole number or true/false, got %s: quote a text that YAML reads as something else",
			describe(n))
		return
	}
	r.text, r.tag = n.Value, n.Tag
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		r.text, r.block = strings.TrimRight(n.Value, "\n "), true
	}
}

// line is the line of the byte at offset.
func (r raw) line(offset int) position {
	p := r.pos
	p.line += strings.Count(r.text[:offset], "\n")
	if r.block {
		p.line++
	}
	return p
}

// given reports whether the key was in the file.
func (r raw) given() bool { return r.tag != "" }

// suggest offers the known word nearest to a misspelt one.
func suggest(word string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(word, k); d < distance && d < utf8.RuneCountInString(word) {
			best, distance = k, d
		}
	}
	if best == "" {
		return ": known are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// editDistance is Levenshtein's over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitution, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
