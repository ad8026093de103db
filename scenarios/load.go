package scenarios

import (
	"cmp"
	"embed"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/pack"
)

// LoadFolders reads the catalogue of the packs in some folders. The base is the public pack or, if
// base isn't "", the pack in that folder. Links out of a folder are not followed.
func LoadFolders(base string, folders ...string) (*Catalog, error) {
	if base == "" && len(folders) == 0 {
		return LoadPublic()
	}
	packs := []pack.Pack{PublicPack()}
	if base != "" {
		packs, folders = nil, append([]string{base}, folders...)
	}
	for _, folder := range folders {
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, fmt.Errorf("opening the pack %s: %w: name a folder with scenario files", folder, err)
		}
		defer root.Close()
		packs = append(packs, pack.Pack{Name: folder, FS: root.FS()})
	}
	return LoadPacks(packs...)
}

// LoadPacks reads the catalogue of several packs. A pack without an article, a list of names, a
// family or a modifier uses the first pack's, the base. The ids of scenarios are unique over all
// packs. The error joins all faults, each in the form "tickets/B07.yaml:31: what is wrong: what to
// do".
func LoadPacks(packs ...pack.Pack) (*Catalog, error) {
	if len(packs) == 0 {
		return nil, errors.New("no packs: name at least one")
	}
	return load(packs, packs[0] == PublicPack())
}

// load reads packs one after the other. If the first is indexed, its scenarios are known by the
// index and compiled when they are needed.
func load(packs []pack.Pack, indexed bool) (*Catalog, error) {
	c := &Catalog{}
	var faults []error
	var base *openPack
	var compiled []*openPack
	files := map[string]string{} // of the scenarios, by id
	for _, p := range packs {
		contents, errs := pack.Read(p)
		opened := openPackOf(contents, base)
		c.packs = append(c.packs, opened.info)
		faults = append(faults, errs...)
		if base != nil || !indexed || !opened.readIndex(c) {
			compiled = append(compiled, opened)
			faults = append(faults, opened.compileAll(c)...)
		}
		faults = append(faults, opened.checkIDs(files)...)
		base = cmp.Or(base, opened)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	digest, err := hashPacks(c.indexed, compiled)
	c.digest = digest.String()
	c.arrange()
	return c, err
}

// compileAll compiles all of a pack, adds its scenarios to the catalogue, and returns the faults.
func (p *openPack) compileAll(c *Catalog) (faults []error) {
	n := len(p.documents)
	tickets, workflows := make([]*TicketScenario, n), make([]*WorkflowScenario, n)
	atOnce(n, func(i int) { p.documents[i].keepRoot() })
	atOnce(n, func(i int) {
		switch d := p.documents[i]; d.Folder {
		case "names":
			p.names.find(d.ID)
		case "kb":
			p.articles.find(d.ID)
		case "tickets":
			tickets[i] = d.loadTicket()
		case "workflows":
			workflows[i] = d.loadWorkflow()
		default: // compiled with the other files of the cases
			d.errs = append(d.errs, d.decoder.Errs...)
		}
	})
	for _, d := range p.documents {
		faults = append(faults, d.errs...)
		if d.canary != nil {
			c.canaries = append(c.canaries, canary{p, d.Path, *d.canary})
		}
	}
	c.tickets, c.workflows = appendFound(c.tickets, tickets), appendFound(c.workflows, workflows)
	return append(faults, p.compileCases(c)...)
}

// appendFound appends the items that aren't nil.
func appendFound[T any](to, items []*T) []*T {
	return append(to, slices.DeleteFunc(items, func(item *T) bool { return item == nil })...)
}

// atOnce calls f for the numbers below n, on all processors.
func atOnce(n int, f func(int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// queueID matches the ids of queues, which a reset names in the same field as scenarios.
var queueID = regexp.MustCompile(`^Q[0-9]{3}$`)

// checkIDs checks that the ids of a pack's scenarios are new, and adds them to the ids of the packs
// before. Ids that differ only in case count as the same, as on some file systems.
func (p *openPack) checkIDs(files map[string]string) (faults []error) {
	for _, d := range p.documents {
		id := strings.ToUpper(d.ID)
		other, taken := files[id]
		switch {
		case d.Folder != "tickets" && d.Folder != "workflows" || len(d.errs) > 0:
		case queueID.MatchString(id):
			faults = append(faults, d.position.Errorf("the id %q is reserved for a queue: give the scenario one that "+
				"isn't Q and three digits", d.ID))
		case taken:
			faults = append(faults, d.position.Errorf("%s already has the id %q, ignoring case: give one of the two "+
				"scenarios another", other, d.ID))
		default:
			files[id] = d.Path
		}
	}
	return faults
}

// PublicPack returns the pack that is part of this program.
func PublicPack() pack.Pack { return pack.Pack{Name: "scenarios", FS: embedded} }

// Splits are the parts of a catalogue, by the intended use of their scenarios.
var Splits = []string{"public-train", "public-dev", "public-test", "private"}

// FolderName returns the name in a folder's pack.yaml. It returns "" if the file is missing or
// invalid, which loading reports.
func FolderName(folder string) string {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return ""
	}
	defer root.Close()
	return pack.ReadName(pack.Pack{FS: root.FS()})
}

// compileCases compiles a pack's generated cases, adds them to the catalogue, and returns the
// faults.
func (p *openPack) compileCases(c *Catalog) []error {
	own := p.caseFiles()
	if len(own) == 0 {
		return nil
	}
	set, err := p.caseSet()
	if err != nil {
		return []error{err}
	}
	if c.caseSet == nil {
		c.caseSet = func() *cases.Set { return set }
	}
	var faults []error
	for _, listed := range set.Listed() {
		switch {
		case !slices.ContainsFunc(own, func(f cases.File) bool { return f.Name == listed.File }):
		case !listed.Tickets:
			c.cases = append(c.cases, caseWorkflow(p, listed))
		case p.articles.find(triageArticle) == nil:
			faults = append(faults, fmt.Errorf("%s: tickets need the article kb/%s.md", listed.File, triageArticle))
		default:
			c.tickets = append(c.tickets, caseTicket(p, listed))
		}
	}
	return faults
}

//go:embed index.json
var indexFile []byte

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

//go:embed pack.yaml tickets workflows kb names families modifiers
var embedded embed.FS

var public = sync.OnceValues(func() (*Catalog, error) { return LoadPacks(PublicPack()) })

// LoadPublic returns the catalogue that is part of this program. It is loaded once.
func LoadPublic() (*Catalog, error) { return public() }
