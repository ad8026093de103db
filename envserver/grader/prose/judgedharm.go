package prose

// harmKind is a kind of harmful statement that a judge of language looks for, because the rules
// don't recognise all of them. Its id is that of the claim and of the gate.
type harmKind struct {
	id     string
	limit  int64
	reason string
}

// invention is the kind whose quotes the rules can check: they know what the writer could read.
const invention = "harm-invention"

// quotedHarm is the maximum length of a quote in a gate's reason, in characters.
const quotedHarm = 200
