package scenarios

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/pack"
)

// TestGoldenIndex loads the public pack as a whole, and compares it with its index. Run it with
// -update after each change of the pack.
func TestGoldenIndex(t *testing.T) {
	contents, _ := pack.Read(PublicPack())
	p, whole := openPackOf(contents, nil), &Catalog{}
	if faults := p.compileAll(whole); len(faults) > 0 {
		t.Fatal(faults)
	}
	whole.arrange()
	digest, err := hashPacks(nil, []*openPack{p})
	if err != nil {
		t.Fatal(err)
	}
	state, err := digest.Hash.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	x := index{Files: hashDocuments(p.documents), Digest: state, Tickets: whole.tickets, Workflows: whole.workflows,
		Cases: whole.cases}
	want, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	want = append(bytes.ReplaceAll(want, []byte(`{"ID"`), []byte("\n"+`{"ID"`)), '\n')
	if *update {
		if err := os.WriteFile("index.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("index.json"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the index is out of date: run go test ./scenarios -run Golden -update: %v\n%s", err,
			cmp.Diff(string(want), string(got)))
	}
}

// TestIndexedCatalogue compares the public catalogue, which is opened by its index, with the whole
// one: in the digest, and in an instance of each scenario.
func TestIndexedCatalogue(t *testing.T) {
	indexed, err := LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := load([]pack.Pack{PublicPack()}, false)
	if err != nil {
		t.Fatal(err)
	}
	if indexed.indexed == nil || indexed.digest != whole.digest {
		t.Errorf("indexed: %t, digest %s; want true, %s", indexed.indexed != nil, indexed.digest, whole.digest)
	}
	if diff := cmp.Diff(hashFirst(whole), hashFirst(indexed)); diff != "" {
		t.Errorf("instances (-whole +indexed):\n%s", diff)
	}
}

// hashFirst hashes an instance of each scenario.
func hashFirst(c *Catalog) map[string][sha256.Size]byte {
	hashes := map[string][sha256.Size]byte{}
	for _, s := range c.Tickets() {
		hashes[s.ID] = hashInstance(s.Instantiate(0))
	}
	for _, s := range slices.Concat(c.Workflows(), c.Cases()) {
		hashes[s.ID] = hashInstance(s.Instantiate(0))
	}
	return hashes
}

// TestIndexOfOtherFiles changes a file: the pack is then loaded as a whole.
func TestIndexOfOtherFiles(t *testing.T) {
	contents, _ := pack.Read(PublicPack())
	contents.Files[0].Data = append(contents.Files[0].Data, ' ')
	if openPackOf(contents, nil).readIndex(&Catalog{}) {
		t.Error("the pack is opened by the index of other files")
	}
}
