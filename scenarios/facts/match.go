package facts

import (
	"slices"
	"sync"

	"github.com/csenv/csenv/scenarios/text"
)

// Wanted is a fact of an instance, with every value that is right for it.
type Wanted struct {
	ID     string
	What   string
	Values []string
}

// Gold is what an instance requires to be told, what else is true, and what was served. It is
// immutable.
type Gold struct {
	context  *Context
	required []wanted
	// listed are the other true facts, which are read when they are first needed.
	listed func() []wanted
	closed bool
	// requiredValues and listedValues are the values of the facts.
	requiredValues []text.Value
	listedValues   func() []text.Value
	texts          func() []*extract
	support        func() *support
}

type wanted struct {
	id     string
	values []value
}

func (w *wanted) name() Name { return w.values[0].of }

// Gold makes the gold of an instance from what was served, the required facts, and those that are
// true as well. If it is closed, every other fact is wrong.
func (l Library) Gold(c *Context, served Served, required, listed []Wanted, closed bool) *Gold {
	g := &Gold{context: c, required: c.readAll(required), closed: closed}
	g.listed = sync.OnceValue(func() []wanted { return c.readAll(listed) })
	g.requiredValues = valuesOf(g.required)
	g.listedValues = sync.OnceValue(func() []text.Value { return valuesOf(g.listed()) })
	g.read(l, served)
	return g
}

// readAll reads the values of facts. Those with unknown names are left out.
func (c *Context) readAll(all []Wanted) []wanted {
	out := make([]wanted, 0, len(all))
	for _, w := range all {
		name, known := Find(w.What)
		if !known {
			continue
		}
		r := wanted{id: w.ID}
		for _, v := range w.Values {
			r.values = append(r.values, c.read(name, v))
		}
		out = append(out, r)
	}
	return out
}

// valuesOf lists the values of facts.
func valuesOf(all []wanted) (values []text.Value) {
	for i := range all {
		for k := range all[i].values {
			v := &all[i].values[k]
			values = append(values, v.readings...)
			if v.of.Type == ID {
				values = append(values, text.Value{Kind: text.IDValue, ID: v.key})
			}
		}
	}
	return values
}

// Finding is what was found about a fact.
type Finding uint8

// The findings. Of a required fact: Missing, Untold or Right. Of a stated one: Ignored, Untold,
// Right, True or Wrong.
const (
	// Missing facts are required and not stated.
	Missing Finding = iota
	// Ignored facts say nothing, or repeat another one.
	Ignored
	// Untold facts are stated and right, but the message lacks the value.
	Untold
	// Right facts are required.
	Right
	// True facts aren't required.
	True
	// Wrong facts aren't true.
	Wrong
)

func (f Finding) String() string {
	return [...]string{"missing", "ignored", "not in the message", "right", "true", "wrong"}[f]
}

// Result is the result of comparing the stated facts with the gold.
type Result struct {
	// Required contains a finding for each required fact, Stated one for each stated fact.
	Required, Stated []Finding
	// right, wrong and extra count the stated facts that are required, wrong, and true but not
	// required.
	right, wrong, extra int
}

// IsRight reports whether every required fact is told and none is wrong.
func (r *Result) IsRight() bool { return r.right == len(r.Required) && r.wrong == 0 }

// The number of true facts beyond those required that cost nothing.
const freeExtras = 3

// Partly is the share, in percent, that the facts earn that aren't wholly right.
const Partly = 30

// Points returns the points of the stated facts: of R right, W wrong and E true facts that aren't
// required, u = R - W - max(0, E-3)/4 of n required ones count. They earn u/n of what is offered if
// all required facts are right and none is wrong, else 0.3·u/n.
func (r *Result) Points(offered int64) int64 {
	n := int64(len(r.Required))
	if n == 0 {
		if r.wrong > 0 {
			return 0
		}
		return offered
	}
	quarters := int64(max(4*r.right-4*r.wrong-max(0, r.extra-freeExtras), 0))
	if r.IsRight() {
		return offered * quarters / (4 * n)
	}
	return offered * quarters * Partly / (4 * n * 100)
}

// Compare compares the stated facts with the gold and the message.
func (g *Gold) Compare(stated []Fact, m *Message) Result {
	r := Result{Required: make([]Finding, len(g.required)), Stated: make([]Finding, len(stated))}
	open := make([]bool, len(stated))
	for i, f := range stated {
		open[i] = f.IsStated() && !slices.ContainsFunc(stated[:i], func(o Fact) bool { return g.sameFact(o, f) })
	}
	for _, exact := range []bool{true, false} {
		for i, f := range stated {
			if !open[i] {
				continue
			}
			at := -1
			for k := range g.required {
				w := &g.required[k]
				if r.Required[k] == Missing && (w.name().What == f.What || !exact) && g.matches(w, f) {
					at = k
					break
				}
			}
			if at < 0 {
				continue
			}
			open[i] = false
			r.Required[at], r.Stated[i] = Untold, Untold
			if slices.ContainsFunc(g.required[at].values, func(v value) bool { return m.has(&v) }) {
				r.Required[at], r.Stated[i] = Right, Right
				r.right++
			}
		}
	}
	for i, f := range stated {
		switch {
		case r.Stated[i] != Missing:
		case !open[i]:
			r.Stated[i] = Ignored
		case g.isTrue(f):
			r.Stated[i] = True
			r.extra++
		default:
			r.Stated[i] = Wrong
			r.wrong++
		}
	}
	return r
}

// sameFact reports whether two stated facts are one stated twice.
func (g *Gold) sameFact(a, b Fact) bool {
	name, known := Find(a.What)
	if !known || a.What != b.What {
		return false
	}
	x, y := g.context.read(name, a.Value), g.context.read(name, b.Value)
	return g.context.equal(&x, &y)
}

// matches reports whether a stated fact is one of the instance, under its name or another one of
// its group.
func (g *Gold) matches(w *wanted, f Fact) bool {
	name, known := Find(f.What)
	if !known || !sameGroup(w.name(), name) {
		return false
	}
	stated := g.context.read(w.name(), f.Value)
	return slices.ContainsFunc(w.values, func(v value) bool { return g.context.equal(&v, &stated) })
}

// sameGroup reports whether two names are the same, or confused by honest agents. A period from now
// may be stated as the moment at which it ends.
func sameGroup(a, b Name) bool {
	return a.What == b.What || a.Group != GroupNone && a.Group == b.Group ||
		a.Group == GroupWhen && b.What == "period" || a.What == "period" && b.Group == GroupWhen
}

// isTrue reports whether a stated fact that isn't required is true.
func (g *Gold) isTrue(f Fact) bool {
	name, known := Find(f.What)
	if !known {
		return false
	}
	repeats := func(w wanted) bool { return g.matches(&w, f) }
	if slices.ContainsFunc(g.listed(), repeats) || slices.ContainsFunc(g.required, repeats) {
		return true
	}
	another := func(w wanted) bool { return w.name().What == name.What && name.Type != ID } // of several served ids
	if g.closed || name.Decides || slices.ContainsFunc(g.required, another) {
		return false
	}
	v := g.context.read(name, f.Value)
	if name.Type == Enum {
		return v.key != ""
	}
	return g.supportsFact(&v)
}

// StandsIn reports whether a value of the fact of an id stands in a quote of the message. A value
// that is words may stand there in other words, and so may a fact that isn't of the gold.
func (g *Gold) StandsIn(id string, quote *Message) bool {
	for _, w := range slices.Concat(g.required, g.listed()) {
		if w.id != id || w.name().Type == Enum || w.name().Type == Text {
			continue
		}
		return slices.ContainsFunc(w.values, func(v value) bool { return quote.has(&v) })
	}
	return true
}

// Required returns the id of the required fact that a stated one is, under its name or another one
// of its group.
func (g *Gold) Required(stated Fact) (id string, found bool) {
	at := slices.IndexFunc(g.required, func(w wanted) bool { return g.matches(&w, stated) })
	if at < 0 {
		return "", false
	}
	return g.required[at].id, true
}

// Invents reports whether a quote of the message may be invented: it has a value that nothing
// supports, or words alone.
func (g *Gold) Invents(quote *Message) bool {
	return len(quote.doc.Values) == 0 || slices.ContainsFunc(quote.doc.Values, func(v text.Value) bool {
		return !g.supports(v) && !g.holdsID(v)
	})
}

// Context is what the gold's values were read with.
func (g *Gold) Context() *Context { return g.context }

// Agree reports whether two values of a name are the same one in any usual form.
func (c *Context) Agree(what, a, b string) bool {
	name, known := Find(what)
	x, y := c.read(name, a), c.read(name, b)
	return known && c.equal(&x, &y)
}

// Stated are the facts as an agent states them: with the usual value of each.
func Stated(all []Wanted) []Fact {
	out := make([]Fact, len(all))
	for i, w := range all {
		out[i] = Fact{What: w.What, Value: w.Values[0]}
	}
	return out
}
