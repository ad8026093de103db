package scenarios

import (
	_ "embed" // for the index
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"slices"
	"sync"

	"github.com/csenv/csenv/scenarios/cases"
)

//go:embed index.json
var indexFile []byte

// index is what is known of the public pack before any of its scenarios is played. Loading the pack
// as a whole takes most of the time of a server's start, for scenarios that it plays late or never.
// So each is compiled when it is first played. TestGoldenIndex compares the index with the whole
// pack, which it loads with all checks. If the files differ from those of the index, the pack is
// loaded as a whole, like any other.
type index struct {
	// Files is the hash of the pack's files, and Digest the state of the catalogue's digest after
	// them.
	Files     uint64
	Digest    []byte
	Tickets   []*TicketScenario
	Workflows []*WorkflowScenario
	Cases     []*WorkflowScenario
}

// readIndex adds the pack's scenarios to the catalogue by its index. It returns false if that is
// the index of other files.
func (p *openPack) readIndex(c *Catalog) bool {
	var x index
	if json.Unmarshal(indexFile, &x) != nil || x.Files != hashDocuments(p.documents) {
		return false
	}
	documents := map[string]*document{}
	for _, d := range p.documents {
		documents[d.Path] = d
	}
	for _, s := range x.Tickets {
		s.Pack, s.template = p.info, sync.OnceValues(func() (ticketTemplate, error) {
			d := documents[s.File]
			return d.compileTicket(), errors.Join(d.errs...)
		})
	}
	for _, s := range x.Workflows {
		s.Pack, s.template = p.info, sync.OnceValues(func() (workflowTemplate, error) {
			d := documents[s.File]
			return d.compileWorkflow(), errors.Join(d.errs...)
		})
	}
	set := sync.OnceValues(p.caseSet)
	c.caseSet = func() *cases.Set {
		loaded, _ := set()
		return loaded
	}
	for _, s := range x.Cases {
		s.Pack, s.template = p.info, sync.OnceValues(func() (workflowTemplate, error) {
			loaded, err := set()
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(loaded.Listed(), func(c *cases.Composition) bool { return c.ID == s.ID })
			return &composedWorkflow{s, p.salt, loaded.Listed()[i]}, nil
		})
	}
	c.indexed, c.tickets, c.workflows, c.cases = &x, x.Tickets, x.Workflows, x.Cases
	return true
}

// hashDocuments hashes the paths and bytes of files. A cryptographic hash would take a tenth of the
// time of a server's start.
func hashDocuments(documents []*document) uint64 {
	table, sum := crc64.MakeTable(crc64.ECMA), uint64(0)
	for _, d := range documents {
		sum = crc64.Update(sum, table, fmt.Appendf(nil, "%s %d\n", d.Canonical(), len(d.Data)))
		sum = crc64.Update(sum, table, d.Data)
	}
	return sum
}
