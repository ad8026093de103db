package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// namespace is the operator's in config.
const namespace = "csenv-system"

const header = "{{- /* Generated from %s: change that, or hack/chart, and run `make generate`. */}}\n"

// part is a group of objects in a template.
type part struct {
	// within are the actions around the objects, each of which ends with {{ end }}.
	within  []string
	objects []string // KIND/NAME
}

// edit replaces a line of an object, which must occur once, or a block: the line and the deeper
// ones below it.
type edit struct {
	line  string
	block bool
	with  string // in which the constant original stands for what is replaced, which is the default
	edits []edit // of what is replaced, before
}

const original = "\x00"

// generate returns the templates of the chart by file name.
func generate() (map[string]string, error) {
	sources := map[string]map[string]string{}
	templates := map[string]string{}
	for _, t := range templateFiles() {
		if sources[t.source] == nil {
			objects, err := build(filepath.Join(root, t.source))
			if err != nil {
				return nil, fmt.Errorf("building %s: %w", t.source, err)
			}
			sources[t.source] = objects
		}
		text, err := t.generate(sources[t.source])
		if err != nil {
			return nil, fmt.Errorf("generating %s from %s: %w", t.name, t.source, err)
		}
		templates[t.name] = text
	}
	for folder, objects := range sources {
		// Helm creates the namespace.
		delete(objects, "Namespace/"+namespace)
		if len(objects) > 0 {
			return nil, fmt.Errorf("no template has %v of %s", slices.Sorted(maps.Keys(objects)), folder)
		}
	}
	return templates, nil
}

// templateFile is a template with objects of a kustomization.
type templateFile struct {
	name, source string
	parts        []part
	edits        map[string][]edit // by KIND/NAME
}

// generate removes the objects of the template from those of its source.
func (t templateFile) generate(objects map[string]string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, header, t.source)
	for _, p := range t.parts {
		for _, action := range p.within {
			fmt.Fprintf(&b, "{{- %s }}\n", action)
		}
		for _, id := range p.objects {
			if objects[id] == "" {
				return "", fmt.Errorf("%s: there is no such object, or another template has it", id)
			}
			text, err := apply(objects[id], t.edits[id])
			if err != nil {
				return "", fmt.Errorf("%s: %w", id, err)
			}
			fmt.Fprintf(&b, "---\n%s", text)
			delete(objects, id)
			delete(t.edits, id)
		}
		b.WriteString(strings.Repeat("{{- end }}\n", len(p.within)))
	}
	if len(t.edits) > 0 {
		return "", fmt.Errorf("edits of objects that it hasn't: %v", slices.Sorted(maps.Keys(t.edits)))
	}
	return b.String(), nil
}

// build returns the objects of a kustomization by KIND/NAME, as YAML that Helm renders to the same
// objects, but in its own namespace.
func build(folder string) (map[string]string, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	objects := map[string]string{}
	for _, object := range built.Resources() {
		text, err := object.AsYAML()
		if err != nil {
			return nil, err
		}
		objects[object.GetKind()+"/"+object.GetName()] = strings.NewReplacer(
			"{{", `{{ "{{" }}`, namespace, "{{ $.Release.Namespace }}").Replace(string(text))
	}
	return objects, nil
}

func apply(text string, edits []edit) (string, error) {
	lines := strings.Split(text, "\n")
	for _, e := range edits {
		start := slices.Index(lines, e.line)
		if start < 0 || slices.Contains(lines[start+1:], e.line) {
			return "", fmt.Errorf("the line %q doesn't occur once", e.line)
		}
		end := start + 1
		for e.block && end < len(lines) && belongs(lines[end], e.line) {
			end++
		}
		replaced, err := apply(strings.Join(lines[start:end], "\n"), e.edits)
		if err != nil {
			return "", fmt.Errorf("below %q: %w", e.line, err)
		}
		with := strings.ReplaceAll(cmp.Or(e.with, original), original, replaced)
		lines = slices.Replace(lines, start, end, strings.Split(with, "\n")...)
	}
	return strings.Join(lines, "\n"), nil
}

// belongs reports whether a line is below a line that begins a block. Kustomize doesn't indent the
// items of a list.
func belongs(line, first string) bool {
	indent := first[:len(first)-len(strings.TrimLeft(first, " "))]
	return strings.HasPrefix(line, indent+" ") || strings.HasPrefix(line, indent+"- ")
}
