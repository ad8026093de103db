package scenarios

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/pack"
)

// flat returns a pack without folders.
func flat(files fstest.MapFS) fstest.MapFS {
	out := fstest.MapFS{}
	for name, file := range files {
		out[path.Base(name)] = file
	}
	return out
}

// only keeps the files of a pack whose names have one of the prefixes.
func only(files fstest.MapFS, prefixes ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, file := range files {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out[name] = file
		}
	}
	return out
}

// with adds a file to a pack.
func with(files fstest.MapFS, name, text string) fstest.MapFS {
	out := maps.Clone(files)
	out[name] = &fstest.MapFile{Data: []byte(text)}
	return out
}

func mustLoadPacks(t testing.TB, packs ...pack.Pack) *Catalog {
	t.Helper()
	c, err := LoadPacks(packs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// renamed returns the test pack with its two scenarios under other ids.
func renamed(t testing.TB) fstest.MapFS {
	out := fstest.MapFS{}
	for name, file := range testPack(t, "", "", "") {
		for _, id := range []string{"T1", "W1"} {
			if path.Base(name) == id+".yaml" {
				name = strings.Replace(name, id, id+"0", 1)
				file = &fstest.MapFile{Data: []byte(strings.Replace(string(file.Data), "id: "+id, "id: "+id+"0", 1))}
			}
		}
		out[name] = file
	}
	return out
}

func TestFlatPack(t *testing.T) {
	nested := testPack(t, "", "", "")
	want, got := mustLoad(t, nested), mustLoad(t, flat(nested))
	if want.Digest() != got.Digest() {
		t.Error("the layout of a pack changes its digest")
	}
	if diff := cmp.Diff(mustTicket(t, want, 7), mustTicket(t, got, 7)); diff != "" {
		t.Errorf("ticket of the flat pack (-nested +flat):\n%s", diff)
	}
}

// Kubernetes mounts a ConfigMap as links into a folder ..data, which is a link to the folder of the
// current version, so that a new version replaces the old one atomically.
func TestMountedPack(t *testing.T) {
	tests := map[string]func(fstest.MapFS) fstest.MapFS{
		"flat":   flat,
		"nested": func(files fstest.MapFS) fstest.MapFS { return files }, // with the paths of the volume's items
	}
	for name, layout := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "..2026_03_14_09_20_00.1"),
				layout(testPack(t, "", "", ""))); err != nil {
				t.Fatal(err)
			}
			link(t, "..2026_03_14_09_20_00.1", filepath.Join(dir, "..data"))
			entries, err := os.ReadDir(filepath.Join(dir, "..data"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				link(t, filepath.Join("..data", e.Name()), filepath.Join(dir, e.Name()))
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if got, want := mustLoad(t, root.FS()).Digest(), mustLoad(t,
				testPack(t, "", "", "")).Digest(); got != want {
				t.Errorf("digest %s, want %s as of the files", got, want)
			}
		})
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestPacksTogether(t *testing.T) {
	base := testPack(t, "", "", "")
	c := mustLoadPacks(t, pack.Pack{Name: "base", FS: base}, pack.Pack{Name: "other", FS: renamed(t)})
	var ids, files []string
	for _, s := range c.Tickets() {
		ids, files = append(ids, s.ID), append(files, s.File)
	}
	for _, s := range c.Workflows() {
		ids, files = append(ids, s.ID), append(files, s.File)
	}
	if diff := cmp.Diff([]string{"T1", "T10", "W1", "W10"}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"base/tickets/T1.yaml", "other/tickets/T10.yaml", "base/workflows/W1.yaml",
		"other/workflows/W10.yaml"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]pack.Info{{Name: "base", Folder: "base"}, {Name: "other", Folder: "other"}},
		c.Packs()); diff != "" {
		t.Errorf("packs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(mustTicket(t, mustLoad(t, base), 3), mustTicket(t, c, 3)); diff != "" {
		t.Errorf("a ticket changed because of another pack (-alone +together):\n%s", diff)
	}
}

func TestBaseArticlesAndNames(t *testing.T) {
	base := testPack(t, "", "", "")
	scenarios := only(renamed(t), "tickets/", "workflows/")
	if _, err := loadOne(scenarios); err == nil || !strings.Contains(err.Error(), "there must be one kb/POL-REF.md") {
		t.Errorf("a pack without articles, alone: %v, want that they are missing", err)
	}
	c := mustLoadPacks(t, pack.Pack{Name: "base", FS: base}, pack.Pack{Name: "other", FS: scenarios})
	ticket, _ := c.Ticket("T10")
	got, err := ticket.Instantiate(0)
	if err != nil || len(got.Articles) != 2 {
		t.Fatalf("T10 has the articles %v, %v; want those of the base", got.Articles, err)
	}
	own := with(scenarios, "kb/POL-SLA.md", "---\nversion: 1\ncanary: x\n---\n# Ours\n\n## 1. One\nText.\n")
	c = mustLoadPacks(t, pack.Pack{Name: "base", FS: base}, pack.Pack{Name: "other", FS: own})
	titles := map[string]string{}
	for _, s := range c.Tickets() {
		instance, err := s.Instantiate(0)
		if err != nil {
			t.Fatal(err)
		}
		titles[s.ID] = instance.Articles[1].Title
	}
	if titles["T10"] != "Ours" || titles["T1"] == "Ours" {
		t.Errorf("titles %v: want the pack's own article for T10 alone", titles)
	}
}

func TestSalt(t *testing.T) {
	const salt = "0123456789abcdef"
	base := testPack(t, "", "", "")
	manifest := func(salt string) string { return "name: mine\nversion: 3\nsalt: \"" + salt + "\"\n" }
	plain, salted := mustLoad(t, base), mustLoad(t, with(base, "pack.yaml", manifest(salt)))
	if diff := cmp.Diff([]pack.Info{{Name: "mine", Version: 3}}, salted.Packs()); diff != "" {
		t.Errorf("packs (-want +got):\n%s", diff)
	}
	same := 0
	for seed := range int64(20) {
		if mustTicket(t, plain, seed).Subject == mustTicket(t, salted, seed).Subject {
			same++
		}
	}
	if same > 2 {
		t.Errorf("%d of 20 seeds give the same subject with a salt as without", same)
	}
	again, other := mustLoad(t, with(base, "pack.yaml", manifest(salt))), mustLoad(t,
		with(base, "pack.yaml", manifest(salt+"0")))
	if diff := cmp.Diff(mustTicket(t, salted, 5), mustTicket(t, again, 5)); diff != "" {
		t.Errorf("the same salt and seed give another ticket (-want +got):\n%s", diff)
	}
	if salted.Digest() != again.Digest() || salted.Digest() == plain.Digest() || salted.Digest() == other.Digest() {
		t.Error("the digest doesn't depend on the salt")
	}
	named := mustLoad(t, with(base, "pack.yaml", "name: mine\nversion: 3\n"))
	if diff := cmp.Diff(mustTicket(t, plain, 5), mustTicket(t, named, 5)); diff != "" ||
		plain.Digest() != named.Digest() {
		t.Errorf("a name and a version change the instances (-without +with):\n%s", diff)
	}
}

func TestPackFaults(t *testing.T) {
	base := testPack(t, "", "", "")
	many := maps.Clone(base)
	for i := range pack.MaxPackFiles {
		many["names/"+strings.Repeat("a", i/26%26+1)+strings.Repeat("b",
			i/676+1)+string(rune('a'+i%26))+".yaml"] = &fstest.MapFile{Data: []byte("x")}
	}
	large := maps.Clone(base)
	for i := range 65 {
		large["names/"+strings.Repeat("a", i+1)+".yaml"] = &fstest.MapFile{Data: make([]byte, pack.MaxFileBytes)}
	}
	renamed := func(id string) fstest.MapFS {
		return with(base, "tickets/"+id+".yaml", strings.ReplaceAll(string(base["tickets/T1.yaml"].Data), "id: T1",
			"id: "+id))
	}
	tests := map[string]struct {
		packs []pack.Pack
		want  string
	}{
		"no packs": {nil, "no packs: name at least one"},
		"empty": {[]pack.Pack{{Name: "mine", FS: fstest.MapFS{}}},
			"mine: no scenario files: a pack has the folders"},
		"same id": {[]pack.Pack{{Name: "base", FS: base}, {Name: "mine", FS: base}},
			`mine/tickets/T1.yaml:4: base/tickets/T1.yaml already has the id "T1"`},
		"ticket and flow": {[]pack.Pack{
			{Name: "", FS: with(base, "workflows/T1.yaml", strings.ReplaceAll(string(base["workflows/W1.yaml"].Data),
				"id: W1",
				"id: T1"))}}, `workflows/T1.yaml:3: tickets/T1.yaml already has the id "T1"`},
		"same id in small letters": {[]pack.Pack{{Name: "base", FS: base},
			{Name: "mine", FS: fstest.MapFS{"tickets/t1.yaml": renamed("t1")["tickets/t1.yaml"]}}},
			`mine/tickets/t1.yaml:4: base/tickets/T1.yaml already has the id "t1", ignoring case`},
		"id of a queue": {[]pack.Pack{{Name: "", FS: renamed("Q007")}},
			`tickets/Q007.yaml:4: the id "Q007" is reserved for a queue`},
		"id of a queue in small letters": {[]pack.Pack{{Name: "", FS: renamed("q100")}},
			`tickets/q100.yaml:4: the id "q100" is reserved for a queue`},
		"large file": {[]pack.Pack{
			{Name: "mine", FS: with(base, "tickets/T2.yaml", strings.Repeat("x", pack.MaxFileBytes+1))}},
			"mine/tickets/T2.yaml: the file has 262145 bytes: at most 262144 are allowed"},
		"many files": {[]pack.Pack{{Name: "mine", FS: many}},
			"the pack is too large: it may hold 2000 files and 16777216 bytes"},
		"large pack": {[]pack.Pack{{Name: "mine", FS: large}}, "the pack is too large"},
		"device": {[]pack.Pack{{Name: "mine", FS: fstest.MapFS{"tickets/T1.yaml": {Mode: fs.ModeNamedPipe}}}},
			"mine/tickets/T1.yaml: not a plain file"},
		"folder": {[]pack.Pack{{Name: "mine", FS: with(base, "tickets/more.yaml/T9.yaml", "")}},
			"mine/tickets/more.yaml: unexpected here"},
		"flat, no kind": {[]pack.Pack{{Name: "mine", FS: with(flat(base), "more.yaml", "a: b")}},
			"mine/more.yaml: unknown kind of file: set kind to"},
		"flat, bad YAML": {[]pack.Pack{{Name: "mine", FS: with(flat(base), "more.yaml", "kind: [")}},
			"mine/more.yaml:1: reading YAML: did not find expected"},
		"flat, other": {[]pack.Pack{{Name: "mine", FS: with(flat(base), "more.txt", "a")}},
			"mine/more.txt: unexpected here: a flat pack holds files named"},
		"flat, folder": {[]pack.Pack{{Name: "mine", FS: with(flat(base), "more.md/a.md", "a")}},
			"mine/more.md: unexpected here"},
		"manifest key": {[]pack.Pack{{Name: "mine", FS: with(base, "pack.yaml", "name: a\nversion: 1\nsallt: b\n")}},
			`mine/pack.yaml:3: unknown key "sallt": did you mean "salt"?`},
		"no version": {[]pack.Pack{{Name: "mine", FS: with(base, "pack.yaml", "name: a\nversion: 0\n")}},
			"mine/pack.yaml:1: a pack has a name and a version of at least 1"},
		"short salt": {[]pack.Pack{
			{Name: "mine", FS: with(base, "pack.yaml", "name: a\nversion: 1\nsalt: hunter2\n")}},
			"mine/pack.yaml:1: salt has 7 bytes: it needs 16 to 256, random ones"},
		"salt as number": {[]pack.Pack{
			{Name: "mine", FS: with(base, "pack.yaml", "name: a\nversion: 1\nsalt: 1234567890123456\n")}},
			"mine/pack.yaml:3: want quoted text here"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := LoadPacks(tt.packs...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("LoadPacks: %.500v\nwant it to contain: %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "1234567890123456") {
				t.Errorf("the message contains the salt: %v", err)
			}
			if n := strings.Count(err.Error(), "too large"); n > 1 {
				t.Errorf("the message reports %d times that the pack is too large", n)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	tuned := with(testPack(t, "", "", ""), "tickets/T2.yaml", strings.NewReplacer("id: T1", "id: T2", "public-train",
		"private").Replace(string(testPack(t, "", "", "")["tickets/T1.yaml"].Data)))
	c := mustLoad(t, tuned)
	tests := map[string]struct {
		splits            []string
		tickets, workflow int
	}{
		"one":   {[]string{"private"}, 1, 0},
		"both":  {[]string{"private", "public-train"}, 2, 1},
		"none":  {nil, 0, 0},
		"other": {[]string{"public-dev"}, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := c.Split(tt.splits...)
			if len(got.Tickets()) != tt.tickets || len(got.Workflows()) != tt.workflow {
				t.Errorf("%d tickets and %d workflows, want %d and %d", len(got.Tickets()), len(got.Workflows()),
					tt.tickets, tt.workflow)
			}
			if _, ok := got.Ticket("T2"); ok != (tt.tickets > 0) {
				t.Errorf("T2 exists = %t", ok)
			}
			if all := tt.tickets == 2; (got.Digest() == c.Digest()) != all {
				t.Errorf("the digest is that of all scenarios = %t, want %t", !all, all)
			}
		})
	}
	if c.Split("private").Digest() == c.Split("public-train").Digest() {
		t.Error("two splits of different scenarios have the same digest")
	}
}
