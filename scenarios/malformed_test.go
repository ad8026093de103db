package scenarios

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// flatten returns the files of a pack without their folders, as a ConfigMap has them.
func flatten(files fstest.MapFS) fstest.MapFS {
	flat := fstest.MapFS{}
	for name, f := range files {
		flat[path.Base(name)] = f
	}
	return flat
}

// In every layout, a fault of the syntax is reported with file and line and what to do.
func TestSyntaxErrors(t *testing.T) {
	for name, tt := range map[string]struct{ old, replacement, want string }{
		"quote":            {"language: en", `language: "en`, "check the quotes"},
		"tab":              {"language: en", "\tlanguage: en", "check the quotes"},
		"twice":            {"language: en", "language: en\nlanguage: en", `key "language" is given twice`},
		"NUL":              {"language: en", "language: e\x00n", "save the file as UTF-8"},
		"Latin-1":          {"language: en", "language: e\xe9n", "save the file as UTF-8"},
		"an escape":        {"language: en", "language: e\x1bn", "save the file as UTF-8"},
		"another document": {"language: en", "language: en\n---\na: 1", "keep one per file"},
	} {
		files := testPack(t, "tickets/T1.yaml", tt.old, tt.replacement)
		before, _, _ := strings.Cut(string(files["tickets/T1.yaml"].Data), tt.replacement)
		line := strings.Count(before, "\n") + 1
		for layout, pack := range map[string]fstest.MapFS{"nested": files, "flat": flatten(files)} {
			_, err := loadOne(pack)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "unknown kind") {
				t.Errorf("%s, %s: %v", name, layout, err)
				continue
			}
			near := false // the parser may name the line where a quoted text ends
			for at := line; at <= line+200; at++ {
				near = near || strings.Contains(err.Error(), fmt.Sprintf("T1.yaml:%d: ", at))
			}
			if !near {
				t.Errorf("%s, %s: line %d is not named: %v", name, layout, line, err)
			}
		}
	}
}

// The spellings of YAML's booleans have one meaning, and a text is none.
func TestBooleans(t *testing.T) {
	base := mustLoad(t, testPack(t, "", "", "")).Digest()
	for text, same := range map[string]bool{"True": true, "TRUE": true, "true": true, "!!bool true": true,
		"yes": false, "on": false, "!!bool yes": false, "tRue": false, "'true'": false} {
		c, err := loadOne(testPack(t, "workflows/W1.yaml", "branch: [true, false]", "branch: ["+text+", False]"))
		if same && (err != nil || c.Digest() == "") || !same && err == nil {
			t.Errorf("branch: %s: %v", text, err)
			continue
		}
		if same && mustWorkflowAt(t, c, 2) != mustWorkflowAt(t, mustLoad(t, testPack(t, "", "", "")), 2) {
			t.Errorf("branch: %s is another branch", text)
		}
		c, err = loadOne(testPack(t, "tickets/T1.yaml", `shown: "{{ over }}"`, "shown: "+text))
		if same && (err != nil || c.Digest() != base) || !same && err == nil {
			t.Errorf("shown: %s: %v", text, err)
		}
	}
}

// mustWorkflowAt describes the instance of W1 at a seed.
func mustWorkflowAt(t *testing.T, c *Catalog, seed int64) string {
	t.Helper()
	return fmt.Sprintf("%x", hashInstance(mustWorkflow(t, c, seed), nil))
}

// No pack makes loading or linting panic, whatever stands in place of a value.
func TestMalformedPacks(t *testing.T) {
	base := testPack(t, "", "", "")
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(base)), func(n string) bool { return path.Ext(n) != ".yaml" })
	odd := []string{"", "~", "true", "-1", "0", fmt.Sprint(math.MinInt64), fmt.Sprint(math.MaxInt64), "1e400", ".nan",
		strings.Repeat("9", 400), "[]", "{}", "[[]]", "{a: {b: c}}", "[0, 0]", fmt.Sprintf("[%d, %d]", math.MinInt64, math.MaxInt64),
		fmt.Sprintf("{int: [%d, %d]}", math.MinInt64, math.MaxInt64), "'{{'", "'{{ 1/0 }}'", "'{{ now }}'", "\"\\0\"",
		"2026-01-01", "99999-99-99T99:99:99Z", "'0.00'", "'-99999999999999999999.99'", "x"}
	wide := fmt.Sprintf("{int: [%d, %d]}", math.MinInt64, math.MaxInt64)
	if _, err := loadOne(testPack(t, "tickets/T1.yaml", "{branch: [true, false], pair: toggle}", wide)); err == nil ||
		!strings.Contains(err.Error(), "less than 2^63 wide") {
		t.Errorf("a range that overflows: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		files := maps.Clone(base)
		name := rapid.SampledFrom(names).Draw(t, "file")
		var doc yaml.Node
		if err := yaml.Unmarshal(base[name].Data, &doc); err != nil {
			t.Fatal(err)
		}
		var nodes []*yaml.Node
		var collect func(n *yaml.Node)
		collect = func(n *yaml.Node) {
			for i, c := range n.Content {
				if n.Kind != yaml.MappingNode || i%2 == 1 {
					nodes = append(nodes, c)
				}
				collect(c)
			}
		}
		collect(&doc)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			var value yaml.Node
			if yaml.Unmarshal([]byte(rapid.SampledFrom(odd).Draw(t, "value")), &value) == nil && len(value.Content) > 0 {
				*rapid.SampledFrom(nodes).Draw(t, "node") = *value.Content[0]
			}
		}
		data, err := yaml.Marshal(&doc)
		if err != nil {
			t.Skip(err)
		}
		files[name] = &fstest.MapFile{Data: data}
		if c, err := loadOne(files); err == nil {
			l := &linter{seen: map[Finding]int64{}}
			_ = l.lintCatalog(t.Context(), c, nil)
		}
	})
}
