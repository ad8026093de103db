package cases

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

// Set is the families and modifiers of a pack. It is immutable.
type Set struct {
	people    map[string]*params.NameList // by language
	goods     *goods
	listed    []*Composition
	families  []*family
	modifiers map[string]*modifier
	answers   map[string]*answer
	train     []string // voices
	heldOut   []string // voices
	replies   map[string]*replies
	// lines are what customers say in conversations, by language, name and voice.
	lines map[string]map[string]map[string]*expr.Text
}

// family is a compiled family.
type family struct {
	*familyFile
	specs     map[string]*spec
	modifiers []*modifier
	says      map[string]map[string]*expr.Text // by language and voice
	ticket    *ticketParts                     // nil if the family has no tickets
}

type modifier struct {
	*modifierFile
	specs   map[string]*spec
	answers map[string]*answer
	says    map[string]map[string]*expr.Text
}

type answer struct {
	about map[string][]string // by language
	says  map[string]map[string]*expr.Text
	pos   source.Position
}

// File is a parsed file of a pack. Name is its path for messages.
type File struct {
	Name string
	Root *yaml.Node
}

// IsKind reports whether a kind of files is one of this package.
func IsKind(kind string) bool { return strings.HasPrefix(kind, "Case") }

// Load compiles a pack's families and modifiers. people are the names of customers by language. The
// error joins all faults.
func Load(files []File, people map[string]*params.NameList) (*Set, error) {
	s := &Set{people: people, goods: &goods{}, modifiers: map[string]*modifier{}, answers: map[string]*answer{},
		replies: map[string]*replies{}, lines: map[string]map[string]map[string]*expr.Text{}}
	c := &compiler{texts: map[string]*expr.Compiler{}}
	var families []*familyFile
	lists := map[string]*listFile{}
	for _, f := range files {
		d := &source.Decoder{File: f.Name}
		switch kind := source.KindAt(f.Root); kind {
		case "CaseWorld":
			s.readWorld(c, decodeFile[worldFile](d, f.Root))
		case "CaseFamily":
			families = append(families, decodeFile[familyFile](d, f.Root))
		case "CaseModifier":
			m := decodeFile[modifierFile](d, f.Root)
			s.modifiers[m.Metadata.ID] = &modifier{m, c.compileSpecs(m.World), c.compileAnswers(m.Answers),
				c.compileWordings(m.Says)}
			if m.Also != nil {
				c.checkRequest(m.Also)
			}
			if m.Later && (m.Also == nil || !m.Hides) {
				c.failf(m.Metadata.Pos, "later needs also, and hides_order: true so that there is a question to answer")
			}
			c.checkFaults(m.Faults)
		case "CaseList":
			lists[f.Name] = decodeFile[listFile](d, f.Root)
		case "CaseReplies":
			r := decodeFile[repliesFile](d, f.Root)
			s.replies[r.Metadata.ID] = c.compileReplies(r)
		case "CaseTalk":
			t := decodeFile[talkFile](d, f.Root)
			s.lines[t.Metadata.ID] = c.compileLines(t)
		default:
			c.failf(source.Position{File: f.Name, Line: 1},
				"kind is CaseWorld, CaseFamily, CaseModifier, CaseReplies, CaseTalk or CaseList, got %q", kind)
		}
		c.errs = append(c.errs, d.Errs...)
	}
	for _, f := range families {
		s.families = append(s.families, s.compileFamily(c, f))
	}
	slices.SortFunc(s.families, func(a, b *family) int { return strings.Compare(a.Metadata.ID, b.Metadata.ID) })
	s.checkLanguages(c)
	if len(c.errs) == 0 {
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			s.listCases(c, name, lists[name])
		}
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			s.listTalks(c, name, lists[name])
		}
	}
	return s, errors.Join(c.errs...)
}

func decodeFile[T any](d *source.Decoder, root *yaml.Node) *T {
	out := new(T)
	d.Value(root, source.ValueOf(out), "")
	return out
}

// compiler collects faults.
type compiler struct {
	texts map[string]*expr.Compiler // by language
	errs  []error
}

func (c *compiler) failf(p source.Position, format string, args ...any) {
	c.errs = append(c.errs, p.Errorf(format, args...))
}

func (s *Set) readWorld(c *compiler, w *worldFile) {
	s.goods.Addresses, s.goods.Carriers = w.Addresses, w.Carriers
	s.goods.Plans = map[string]string{"basic": w.Plans.Basic, "plus": w.Plans.Plus, "max": w.Plans.Max}
	s.goods.kinds = map[string]map[string][]string{
		"standard":   c.compileProducts("standard", w.Products.Standard),
		"final_sale": c.compileProducts("final_sale", w.Products.FinalSale),
		"custom":     c.compileProducts("custom", w.Products.Custom),
		"hygiene":    c.compileProducts("hygiene", w.Products.Hygiene),
	}
	s.answers, s.train, s.heldOut = c.compileAnswers(w.Answers), w.Voices.Train, w.Voices.Test
}

func (s *Set) compileFamily(c *compiler, f *familyFile) *family {
	out := &family{familyFile: f, specs: c.compileSpecs(f.World), says: c.compileWordings(f.Says)}
	c.checkRequest(&f.Request)
	out.modifiers = s.findModifiers(c, f, f.Modifiers, false)
	if f.Ticket != nil {
		out.ticket = s.ticketParts(c, f)
	}
	if len(out.says["en"]) == 0 {
		c.failf(f.Metadata.Pos, "says needs texts in English")
	}
	return out
}

// findModifiers returns the modifiers of a list of a family's, sorted: those for tickets alone, or
// the others.
func (s *Set) findModifiers(c *compiler, f *familyFile, ids []string, situations bool) []*modifier {
	var out []*modifier
	for _, id := range ids {
		switch m := s.modifiers[id]; {
		case m == nil:
			c.failf(f.Metadata.Pos, "there is no modifier %q%s", id,
				source.SuggestWord(id, slices.Sorted(maps.Keys(s.modifiers))))
		case (m.Situation != nil) != situations:
			c.failf(f.Metadata.Pos, "modifier %q: those with a situation belong under ticket.situations, the others "+
				"under modifiers", id)
		default:
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *modifier) int { return strings.Compare(a.Metadata.ID, b.Metadata.ID) })
	return out
}

func (c *compiler) checkRequest(r *requestFile) {
	if !slices.Contains(desk.ListKinds(), r.Kind) {
		c.failf(r.Pos, "request.kind is one of %s, got %q", strings.Join(desk.ListKinds(), ", "), r.Kind)
	}
}

func (c *compiler) checkFaults(files []faultFile) {
	for _, f := range files {
		tools := desk.ListToolNames(desk.Cases | desk.Talks)
		if !slices.Contains(tools, f.Tool) || f.Tool == desk.RespondUser {
			c.failf(f.Pos, "tool is one of %s, and not %s, got %q", strings.Join(tools, ", "), desk.RespondUser, f.Tool)
		}
	}
}

func (c *compiler) compileSpecs(files source.Ordered[specFile]) map[string]*spec {
	out := map[string]*spec{}
	for i := range files {
		s, err := files[i].Value.compile(files[i].Name)
		if err != nil {
			c.errs = append(c.errs, err)
			continue
		}
		out[files[i].Name] = &s
	}
	return out
}

func (c *compiler) compileWordings(files wordings) map[string]map[string]*expr.Text {
	out := map[string]map[string]*expr.Text{}
	for _, language := range files {
		c.checkCode(language.Name, language.Pos)
		out[language.Name] = map[string]*expr.Text{}
		for _, voice := range language.Value {
			out[language.Name][voice.Name] = c.compileText(language.Name, voice.Value)
		}
	}
	return out
}

func (c *compiler) compileAnswers(files source.Ordered[answerFile]) map[string]*answer {
	out := map[string]*answer{}
	for _, f := range files {
		about := map[string][]string{}
		for _, words := range f.Value.About {
			c.checkCode(words.Name, words.Pos)
			if about[words.Name] = words.Value; len(words.Value) == 0 {
				c.failf(words.Pos, "about needs at least one word")
			}
		}
		out[f.Name] = &answer{about: about, says: c.compileWordings(f.Value.Says), pos: f.Pos}
	}
	return out
}

// Families returns the ids of the families in order.
func (s *Set) Families() []string {
	out := make([]string, len(s.families))
	for i, f := range s.families {
		out[i] = f.Metadata.ID
	}
	return out
}

// isCompatible reports whether the modifiers change different things.
func isCompatible(ms []*modifier) bool {
	seen := map[string]bool{}
	for _, m := range ms {
		keys := slices.Collect(maps.Keys(m.specs))
		if m.Also != nil {
			keys = append(keys, "also")
		}
		if m.Hides {
			keys = append(keys, "order")
		}
		if m.Request.Opened || m.Request.Misused {
			keys = append(keys, "condition")
		}
		if m.Request.Wish != "" {
			keys = append(keys, "wish")
		}
		if len(m.Faults) > 0 {
			keys = append(keys, "faults")
		}
		if m.Situation != nil {
			keys = append(keys, "situation")
		}
		for _, a := range slices.Collect(maps.Keys(m.answers)) {
			keys = append(keys, "answer "+a)
		}
		for _, k := range keys {
			if seen[k] {
				return false
			}
			seen[k] = true
		}
	}
	return true
}
