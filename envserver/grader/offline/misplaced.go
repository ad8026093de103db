package offline

import "github.com/csenv/csenv/envserver/grader/text"

// misplaced reports whether the fact's value, stated at a token, stands where another fact's belongs:
// it counts what another fact counts, or is nearer to the words of another fact whose value is
// nearer to this one's. "Each hub takes 7 sensors, so you need 121 hubs" holds the right numbers
// and is wrong.
func (f *fact) misplaced(d *text.Document, at int, p *prepared) bool {
	c := d.ValueAt(at)
	if c == nil {
		return false
	}
	for i := range p.facts {
		g := &p.facts[i]
		if g.id == f.id || g.states(*c) {
			continue
		}
		if c.Kind == text.NumberValue && c.At.Hi < len(d.Tokens) && g.tallies(&d.Tokens[c.At.Hi]) &&
			!f.tallies(&d.Tokens[c.At.Hi]) && !g.placed(d) {
			return true
		}
		for k := range d.Values {
			if o := &d.Values[k]; o.Kind == c.Kind && g.states(*o) && !f.states(*o) && f.crossed(g, d, c.At, o.At) {
				return true
			}
		}
	}
	return false
}

// states reports whether a form of the fact makes the claim alone.
func (f *fact) states(c text.Value) bool {
	for i := range f.forms {
		if len(f.forms[i].values) == 1 && f.forms[i].values[0].Equal(c) {
			return true
		}
	}
	return false
}

// tallies reports whether the token is what the fact's number counts: the hubs of "7 hubs".
func (f *fact) tallies(t *text.Token) bool {
	for i := range f.forms {
		form := &f.forms[i]
		if len(form.values) != 1 || form.values[0].Kind != text.NumberValue {
			continue
		}
		for k := range form.words {
			if t.Kind == text.WordToken && form.words[k].Matches(t, false) {
				return true
			}
		}
	}
	return false
}

// placed reports whether the fact's number stands before what it counts.
func (f *fact) placed(d *text.Document) bool {
	for i := range d.Values {
		c := &d.Values[i]
		if f.states(*c) && c.At.Hi < len(d.Tokens) && f.tallies(&d.Tokens[c.At.Hi]) {
			return true
		}
	}
	return false
}

// crossed reports whether the words of g are nearer to f's value at own than those of f, and those of
// f nearer to g's value at other.
func (f *fact) crossed(g *fact, d *text.Document, own, other text.Span) bool {
	mine, theirs := f.reach(g, d, own)
	if theirs >= mine {
		return false
	}
	mine, theirs = f.reach(g, d, other)
	return mine < theirs
}

// reach returns how far from a value the nearest words are that only f and only g have among their
// context, beyond maxReach where there is none.
func (f *fact) reach(g *fact, d *text.Document, at text.Span) (mine, theirs int) {
	s := d.SentenceOf(at.Lo)
	mine, theirs = maxReach+1, maxReach+1
	for i := max(s.Lo, at.Lo-maxReach); i < min(s.Hi, at.Hi+maxReach); i++ {
		if i >= at.Lo && i < at.Hi || d.Tokens[i].Kind != text.WordToken {
			continue
		}
		far := max(at.Lo-i, i-at.Hi+1)
		if far >= mine && far >= theirs {
			continue
		}
		one := text.Between(i, i+1)
		switch a, b := d.Find(f.context, one, false) >= 0, d.Find(g.context, one, false) >= 0; {
		case a && !b:
			mine = min(mine, far)
		case b && !a:
			theirs = min(theirs, far)
		}
	}
	return mine, theirs
}
