// Package source decodes the YAML of scenario files strictly: it reports every fault of a file,
// with file and line, and suggests the nearest known word.
package source

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Decoder reads YAML nodes into the file structs strictly: every key must be known and every field
// present unless its tag says optional. It continues after a fault, so that all faults of a file
// are reported together.
//
// Field tags: `yaml:"name"` or `yaml:"name,optional"`, and `enum:"a|b|c"` on strings and lists of
// strings.
type Decoder struct {
	File string
	Errs []error
}

// fromYAML is implemented by field types with their own YAML form.
type fromYAML interface {
	FromYAML(d *Decoder, n *yaml.Node)
}

// head is the part of a document that says how to read the rest.
type head struct {
	Kind string `yaml:"kind"`
}

// KindAt returns the kind of a document, "" for one without a kind.
func KindAt(root *yaml.Node) string {
	var h head
	_ = root.Decode(&h)
	return h.Kind
}

// Position is the file and line of a value, for messages.
type Position struct {
	File string
	Line int
}

func (p Position) String() string { return p.File + ":" + strconv.Itoa(p.Line) }

// Errorf returns an error with the position in front.
func (p Position) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{p}, args...)...)
}

// At returns the position of a node.
func (d *Decoder) At(n *yaml.Node) Position { return Position{d.File, n.Line} }

// Failf records a fault of a node.
func (d *Decoder) Failf(n *yaml.Node, format string, args ...any) {
	d.Errs = append(d.Errs, d.At(n).Errorf(format, args...))
}

// Document decodes the one document of a file.
func (d *Decoder) Document(data []byte, into any) {
	root := d.Root(data)
	if root != nil {
		d.Value(root, reflect.ValueOf(into).Elem(), "")
	}
}

// Root parses a file and returns the content of its only document, or nil after a fault.
func (d *Decoder) Root(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		d.syntax(data, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		d.Failf(&second, "a second document: keep one per file")
		return nil
	case !errors.Is(err, io.EOF):
		d.syntax(data, err)
		return nil
	}
	root := doc.Content[0]
	if !d.plain(root) {
		return nil
	}
	return root
}

var parserError = regexp.MustCompile(`(?s)^yaml: line ([0-9]+): (.*)$`)

// syntax records an error of the parser with its line, which the parser doesn't name for bytes that
// no text has.
func (d *Decoder) syntax(data []byte, err error) {
	if errors.Is(err, io.EOF) {
		d.Errs = append(d.Errs, fmt.Errorf("%s: the file is empty", d.File))
		return
	}
	line, what := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if found := parserError.FindStringSubmatch(err.Error()); found != nil {
		line, _ = strconv.Atoi(found[1])
		if strings.HasPrefix(found[2], "did not find expected") {
			// The parser counts these lines from 0, its scanner's from 1, and one more at the end.
			line = min(line+1, 1+strings.Count(strings.TrimRight(string(data), "\n"), "\n"))
		}
		what = found[2] + ": check the quotes, the indentation and the colons in this line and in those around it"
	} else if at := slices.IndexFunc([]rune(string(data)), func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) && !strings.ContainsRune("\n\r\t\u0085", r)
	}); at >= 0 {
		line += strings.Count(string([]rune(string(data))[:at]), "\n")
		what += ": save the file as UTF-8, without control characters"
	}
	d.Errs = append(d.Errs, Position{d.File, line}.Errorf("reading YAML: %s", what))
}

// plain refuses anchors, aliases and duplicate keys: an alias could expand a small file to a huge
// one, and the first of two equal keys would be ignored silently. It brings the spellings of a
// boolean, such as True, to one.
func (d *Decoder) plain(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.Failf(n, "anchors and aliases are not allowed: write the value out")
		return false
	}
	ok := true
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		if n.Value = strings.ToLower(n.Value); n.Value != "true" && n.Value != "false" {
			d.Failf(n, "want true or false, got %q", n.Value)
			ok = false
		}
	}
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Kind != yaml.ScalarNode {
				d.Failf(c, "a key must be text")
				return false
			}
			if seen[c.Value] {
				d.Failf(c, "key %q is given twice", c.Value)
				ok = false
			}
			seen[c.Value] = true
		}
		ok = d.plain(c) && ok
	}
	return ok
}

// Value decodes a node into v. The enum lists the allowed strings, separated by |.
func (d *Decoder) Value(n *yaml.Node, v reflect.Value, enum string) {
	if custom, ok := reflect.TypeAssert[fromYAML](v.Addr()); ok {
		custom.FromYAML(d, n)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.Mapping(n, v)
	case reflect.Slice:
		d.Sequence(n, v, enum)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.Value(n, v.Elem(), enum)
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

// Mapping decodes a mapping into a struct. Unknown and missing keys are faults.
func (d *Decoder) Mapping(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.Failf(n, "want a mapping with the keys %s, got %s", strings.Join(listKeys(v.Type()), ", "), DescribeNode(n))
		return
	}
	present := map[string]*yaml.Node{}
	known := listKeys(v.Type())
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.Contains(known, key.Value) {
			d.Failf(key, "unknown key %q%s", key.Value, SuggestWord(key.Value, known))
		}
		present[key.Value] = n.Content[i+1]
	}
	d.fields(n, present, v)
}

func (d *Decoder) fields(n *yaml.Node, present map[string]*yaml.Node, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.Anonymous:
			d.fields(n, present, v.Field(i))
		case f.IsExported():
			d.field(n, present, v.Field(i), f)
		}
	}
}

func (d *Decoder) field(parent *yaml.Node, present map[string]*yaml.Node, v reflect.Value, f reflect.StructField) {
	name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	switch n := present[name]; {
	case name == "":
		v.Set(reflect.ValueOf(d.At(parent)))
	case n != nil:
		d.Value(n, v, f.Tag.Get("enum"))
	case rest != "optional":
		d.Failf(parent, "missing key %q", name)
	}
}

// listKeys lists the YAML keys of a file struct in the order of its fields. The one field without a
// tag receives the position.
func listKeys(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, listKeys(f.Type)...)
		} else if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Sequence decodes a list into a slice.
func (d *Decoder) Sequence(n *yaml.Node, v reflect.Value, enum string) {
	if n.Kind != yaml.SequenceNode {
		d.Failf(n, "want a list, got %s", DescribeNode(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.Value(c, out.Index(i), enum)
	}
	v.Set(out)
}

func (d *Decoder) text(n *yaml.Node, v reflect.Value, enum string) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		d.Failf(n, "want text, got %s", DescribeNode(n))
		return
	}
	if strings.Contains(n.Value, "{{") {
		d.Failf(n, "this text is used unchanged: {{ }} is not rendered here")
	}
	if allowed := strings.Split(enum, "|"); enum != "" && !slices.Contains(allowed, n.Value) {
		meant := ""
		if best := NearestWord(n.Value, allowed); best != "" {
			meant = fmt.Sprintf(": did you mean %q?", best)
		}
		d.Failf(n, "%q is not one of %s%s", n.Value, strings.Join(allowed, ", "), meant)
	}
	v.SetString(n.Value)
}

func (d *Decoder) integer(n *yaml.Node, v reflect.Value) {
	i, err := wholeNumber(n)
	if err != nil {
		d.Failf(n, "%v", err)
		return
	}
	v.SetInt(i)
}

func (d *Decoder) boolean(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		d.Failf(n, "want true or false, got %s", DescribeNode(n))
		return
	}
	v.SetBool(n.Value == "true")
}

// wholeNumber parses a YAML integer. For a float, the error explains that every unit of the schema
// is whole.
func wholeNumber(n *yaml.Node) (int64, error) {
	if n.Tag == "!!float" {
		return 0, fmt.Errorf("want a whole number, got %s: points, credits and caps are thousandths (0.5 is 500), "+
			"money is quoted text (\"49.00\")", n.Value)
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, fmt.Errorf("want a whole number, got %s", DescribeNode(n))
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("want a decimal whole number, got %q", n.Value)
	}
	return i, nil
}

// DescribeNode returns the kind of a node, for messages.
func DescribeNode(n *yaml.Node) string {
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

// Ordered is a mapping with arbitrary keys, in the order of the file.
type Ordered[T any] []Entry[T]

// Entry is a key of a mapping with its value.
type Entry[T any] struct {
	Name  string
	Pos   Position
	Value T `yaml:"-"`
}

// FromYAML decodes a mapping.
func (o *Ordered[T]) FromYAML(d *Decoder, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.Failf(n, "want a mapping, got %s", DescribeNode(n))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		e := Entry[T]{Name: n.Content[i].Value, Pos: d.At(n.Content[i])}
		d.Value(n.Content[i+1], reflect.ValueOf(&e.Value).Elem(), "")
		*o = append(*o, e)
	}
}

// Raw is a scalar that may contain templates, or a literal of another type.
type Raw struct {
	Text string
	Tag  string // YAML's: !!str, !!int, !!bool
	Pos  Position
	// block is set for | and > texts, whose first line is the one after pos.
	block bool
}

// FromYAML decodes a scalar.
func (r *Raw) FromYAML(d *Decoder, n *yaml.Node) {
	r.Pos = d.At(n)
	if n.Kind != yaml.ScalarNode || !slices.Contains([]string{"!!str", "!!int", "!!bool"}, n.Tag) {
		d.Failf(n, "want text, a whole number or true/false, got %s: quote a text that YAML reads as something else",
			DescribeNode(n))
		return
	}
	r.Text, r.Tag = n.Value, n.Tag
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		r.Text, r.block = strings.TrimRight(n.Value, "\n "), true
	}
}

// Line returns the line of the byte at offset.
func (r Raw) Line(offset int) Position {
	p := r.Pos
	p.Line += strings.Count(r.Text[:offset], "\n")
	if r.block {
		p.Line++
	}
	return p
}

// Int returns the value of a literal whole number.
func (r Raw) Int() (int64, error) {
	n, err := strconv.ParseInt(r.Text, 10, 64)
	if err != nil || r.Tag != "!!int" {
		return 0, r.Pos.Errorf("want a decimal whole number, got %q", r.Text)
	}
	return n, nil
}

// Given reports whether the key was in the file.
func (r Raw) Given() bool { return r.Tag != "" }

// SuggestWord suggests the known word nearest to a misspelt one.
func SuggestWord(word string, known []string) string {
	if best := NearestWord(word, known); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ": known are " + strings.Join(known, ", ")
}

// NearestWord returns the known word of which a word may be a misspelling, "" if there is none.
// Case doesn't count. Of equally near words it is the first in alphabetical order.
func NearestWord(word string, known []string) string {
	best, distance := "", min(max(3, len(word)/2), utf8.RuneCountInString(word))
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := EditDistance(strings.ToLower(word), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// EditDistance returns the Levenshtein distance in bytes.
func EditDistance(a, b string) int {
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

// ValueOf returns the settable value of *p.
func ValueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }
