package offline

import (
	"github.com/csenv/csenv/envserver/grader/text"
)

// handedOver reports whether the reply says that the ticket went or goes to a team. Naming the right
// team is a hint of it, a verb of handing over makes it plain.
func handedOver(d *text.Document, p *prepared, plain bool) bool {
	clauses := d.Clauses()
	for i := range clauses {
		c := clauses[i].Span
		named := d.Find(p.teams, c, false) >= 0
		given := d.AnyStem(text.Handover, c) >= 0 && (named || d.AnyStem(text.Teams, c) >= 0)
		given = given || d.AnyPhrase(text.Handed, c) && p.namesTeam(d)
		if !given && (plain || !named) {
			continue
		}
		s := d.SentenceOf(c.Lo)
		if d.NegatorIn(text.Between(d.RunOf(s, c.Lo), c.Hi)) < 0 &&
			d.AnyWord(text.Conditions, text.Between(d.PartOf(s, c.Lo), c.Hi)) < 0 && !text.LeavesOpen(d, s) {
			return true
		}
	}
	return false
}

// namesTeam reports whether the reply names a team that the ticket may go to: what "them" stands for.
func (p *prepared) namesTeam(d *text.Document) bool {
	whole := d.Whole()
	return d.Find(p.teams, whole, false) >= 0 || d.AnyStem(text.Teams, whole) >= 0
}
