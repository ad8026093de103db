package offline

// misplaced tells whether the fact's value, stated at a token, stands where another fact's belongs:
// it counts what another fact counts, or is nearer to the words of another fact whose value is
// nearer to this one's. "Each hub takes 7 sensors, so you need 121 hubs" holds the right numbers
// and is wrong.
func (f *fact) misplaced(d *document, at int, p *prepared) bool {
	c := d.claimAt(at)
	if c == nil {
		return false
	}
	for i := range p.facts {
		g := &p.facts[i]
		if g.id == f.id || g.claims(*c) {
			continue
		}
		if c.kind == numberClaim && c.at.hi < len(d.tokens) && g.tallies(&d.tokens[c.at.hi]) &&
			!f.tallies(&d.tokens[c.at.hi]) && !g.placed(d) {
			return true
		}
		for k := range d.claims {
			if o := &d.claims[k]; o.kind == c.kind && g.claims(*o) && !f.claims(*o) && f.crossed(g, d, c.at, o.at) {
				return true
			}
		}
	}
	return false
}

// claims tells whether a form of the fact makes the claim alone.
func (f *fact) claims(c claim) bool {
	for i := range f.forms {
		if len(f.forms[i].claims) == 1 && f.forms[i].claims[0].equal(c) {
			return true
		}
	}
	return false
}

// tallies tells whether the token is what the fact's number counts: the hubs of "7 hubs".
func (f *fact) tallies(t *token) bool {
	for i := range f.forms {
		form := &f.forms[i]
		if len(form.claims) != 1 || form.claims[0].kind != numberClaim {
			continue
		}
		for k := range form.words {
			if t.kind == wordToken && form.words[k].matches(t, false) {
				return true
			}
		}
	}
	return false
}

// placed tells whether the fact's number stands before what it counts.
func (f *fact) placed(d *document) bool {
	for i := range d.claims {
		c := &d.claims[i]
		if f.claims(*c) && c.at.hi < len(d.tokens) && f.tallies(&d.tokens[c.at.hi]) {
			return true
		}
	}
	return false
}

// crossed tells whether the words of g are nearer to f's value at own than those of f, and those of
// f nearer to g's value at other.
func (f *fact) crossed(g *fact, d *document, own, other span) bool {
	mine, theirs := f.reach(g, d, own)
	if theirs >= mine {
		return false
	}
	mine, theirs = f.reach(g, d, other)
	return mine < theirs
}

// reach returns how far from a value the nearest words are that only f and only g have among their
// context, beyond maxReach where there is none.
func (f *fact) reach(g *fact, d *document, at span) (mine, theirs int) {
	s := d.sentenceOf(at.lo)
	mine, theirs = maxReach+1, maxReach+1
	for i := max(s.lo, at.lo-maxReach); i < min(s.hi, at.hi+maxReach); i++ {
		if i >= at.lo && i < at.hi || d.tokens[i].kind != wordToken {
			continue
		}
		far := max(at.lo-i, i-at.hi+1)
		if far >= mine && far >= theirs {
			continue
		}
		one := span{i, i + 1}
		switch a, b := d.find(f.context, one, false) >= 0, d.find(g.context, one, false) >= 0; {
		case a && !b:
			mine = min(mine, far)
		case b && !a:
			theirs = min(theirs, far)
		}
	}
	return mine, theirs
}
