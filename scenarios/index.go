package scenarios

import (
	"crypto/sha256"
	_ "embed" // for the index
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"slices"
	"strings"
	"sync"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
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

// hashFiles hashes the paths and bytes of files. A cryptographic hash would take a tenth of the
// time of a server's start.
func hashFiles(files []pack.File) uint64 {
	table, sum := crc64.MakeTable(crc64.ECMA), uint64(0)
	for _, f := range files {
		sum = crc64.Update(sum, table, fmt.Appendf(nil, "%s %d\n", f.Canonical(), len(f.Data)))
		sum = crc64.Update(sum, table, f.Data)
	}
	return sum
}

// openIndexed adds the public pack to the catalogue by its index. It returns false if that is the
// index of other files.
func (l *loader) openIndexed(c *Catalog, p *openPack, files []pack.File) bool {
	var x index
	if json.Unmarshal(indexFile, &x) != nil || x.Files != hashFiles(files) ||
		l.digest.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(x.Digest) != nil {
		return false
	}
	c.indexed = true
	sources := map[string]pack.File{}
	for _, f := range files {
		sources[f.File] = f
		switch f.Folder {
		case "names":
			p.names[f.ID] = sync.OnceValue(func() *params.NameList { return l.fork().nameFile(p, f, parseFile(f)) })
		case "kb":
			p.articles[f.ID] = sync.OnceValue(func() *article { return l.fork().article(f.File, f.ID, f.Data) })
		}
	}
	for _, s := range x.Tickets {
		compile := compileLater(l, p, sources[s.File], func(l *loader) []parsed[ticketFile] { return l.tickets },
			(*loader).compileTicket)
		s.Pack, s.template = p.info, func() (ticketTemplate, error) { return compile() }
		c.addTicket(s)
		l.scenarios[strings.ToUpper(s.ID)] = s.File
	}
	for _, s := range x.Workflows {
		compile := compileLater(l, p, sources[s.File], func(l *loader) []parsed[workflowFile] { return l.workflows },
			(*loader).compileWorkflow)
		s.Pack, s.template = p.info, func() (workflowTemplate, error) { return compile() }
		c.addWorkflow(s)
		l.scenarios[strings.ToUpper(s.ID)] = s.File
	}
	l.indexCases(c, p, x.Cases, files)
	return true
}

// compileLater returns a function that compiles a scenario at its first call.
func compileLater[F, S any](l *loader, p *openPack, f pack.File, decoded func(*loader) []parsed[F],
	compile func(*loader, parsed[F]) *S) func() (*S, error) {
	return sync.OnceValues(func() (*S, error) {
		own := l.fork()
		own.source(p, f, parseFile(f))
		compiled := compileAll(own, decoded(own), compile)
		if len(own.errs) > 0 {
			return nil, errors.Join(own.errs...)
		}
		return compiled[0], nil
	})
}

// indexCases adds the generated cases to the catalogue.
func (l *loader) indexCases(c *Catalog, p *openPack, indexed []*WorkflowScenario, files []pack.File) {
	var sources []pack.File
	for _, f := range files {
		if slices.Contains([]string{"names", "families", "modifiers"}, f.Folder) {
			sources = append(sources, f)
		}
	}
	p.laterCases = func() []cases.File {
		read := &openPack{names: map[string]func() *params.NameList{}}
		l.fork().sources(read, sources)
		return read.cases
	}
	set := sync.OnceValues(func() (*cases.Set, error) { return l.caseSet(p) })
	c.caseSet = func() *cases.Set {
		loaded, _ := set()
		return loaded
	}
	for _, s := range indexed {
		s.Pack = p.info
		s.template = sync.OnceValues(func() (workflowTemplate, error) {
			loaded, err := set()
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(loaded.Listed(), func(c *cases.Composition) bool { return c.ID == s.ID })
			return &composedWorkflow{s, p.salt, loaded.Listed()[i]}, nil
		})
		c.addWorkflow(s)
	}
}

// fork returns a loader for some of the files.
func (l *loader) fork() *loader {
	return &loader{locales: l.locales, languages: l.languages, scenarios: map[string]string{},
		digest: digester{sha256.New()}}
}

// loadWhole reads the catalogue of the public pack without its index.
func loadWhole() (*Catalog, error) {
	l, err := newLoader()
	if err != nil {
		return nil, err
	}
	l.whole = true
	return l.load([]pack.Pack{PublicPack()})
}
