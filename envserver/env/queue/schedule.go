// Package queue computes the scores of a shift: five tickets that have all arrived, 36 simulated
// minutes, which are too few to do everything, and two escalations.
//
// A ticket's points are weighted by its true priority, and count in full if its first reply was
// sent in time. The score of a shift is its weighted score divided by the best score of 240
// schedules with perfect answers: every order of the tickets, each finished before the next or all
// labelled before the first reply. So the score measures the use of the minutes and not the
// difficulty of the tickets. A schedule of another form can earn more, which counts as the full
// score.
//
// All numbers are integers: points and factors are thousandths, and a weighted score is their
// product times the weight. The environment, the oracle and the linter of the catalogue use this
// package.
package queue

import "slices"

// The bounds of a shift.
const (
	// Size is the number of tickets.
	Size = 5
	// Minutes are the simulated minutes of a shift.
	Minutes = 36
	// Slots is the number of tickets that may be escalated.
	Slots = 2
)

// Kind is what an act does to a ticket.
type Kind int

const (
	// Category sets the category.
	Category Kind = iota
	// Priority sets the priority.
	Priority
	// Reply writes to the customer.
	Reply
	// Resolve closes the ticket.
	Resolve
	// Escalate hands the ticket to a team.
	Escalate
)

// The minutes that each kind of act takes, and the milli-points of a perfect act, which are the
// grader's.
var (
	minutesOf = [...]int{Category: 1, Priority: 1, Reply: 5, Resolve: 1, Escalate: 2}
	pointsOf  = [...]int64{Category: 200, Priority: 100, Reply: 500, Resolve: 200, Escalate: 200}
)

// Minutes returns the minutes that the act takes.
func (k Kind) Minutes() int { return minutesOf[k] }

// Perfect returns the milli-points of a perfect act.
func (k Kind) Perfect() int64 { return pointsOf[k] }

// PriorityWeight returns the weight of a ticket with that priority.
func PriorityWeight(priority string) int64 {
	weight, _ := priorityTerms(priority)
	return weight
}

// IsPressing reports whether a ticket of that priority is urgent or high: an episode passes only if
// these are right.
func IsPressing(priority string) bool { return priority == "urgent" || priority == "high" }

// ReplyLimit returns the minute by which a ticket of that priority must have its first reply.
func ReplyLimit(priority string) int {
	_, limit := priorityTerms(priority)
	return limit
}

func priorityTerms(priority string) (weight int64, limit int) {
	switch priority {
	case "urgent":
		return 4, 10
	case "high":
		return 3, 20
	case "medium":
		return 2, 45
	default:
		return 1, 90
	}
}

// The factors of a ticket's points, in thousandths.
const (
	// InTime is the factor of a ticket whose first reply was sent within the limit.
	InTime = 1000
	// TooLate is the factor of a ticket whose first reply was sent after twice the limit or not at
	// all.
	TooLate = 400
)

// Never is the minute of a reply that wasn't sent.
const Never = -1

// ReplyTimeFactor returns the factor of a ticket's points for the minute of its first reply, in
// thousandths, rounded half up: it falls linearly from InTime at the limit to TooLate at twice the
// limit.
func ReplyTimeFactor(priority string, answered int) int64 {
	limit := ReplyLimit(priority)
	switch {
	case answered == Never, answered >= 2*limit:
		return TooLate
	case answered <= limit:
		return InTime
	}
	late, over := int64(answered-limit), int64(limit)
	return InTime - (2*(InTime-TooLate)*late+over)/(2*over)
}

// WeightedScore returns a ticket's part of a shift's score: weight times milli-points times factor.
func WeightedScore(priority string, points int64, answered int) int64 {
	return PriorityWeight(priority) * points * ReplyTimeFactor(priority, answered)
}

// Case contains the properties on which a ticket's weighted score depends.
type Case struct {
	Priority string
	Escalate bool
}

// Act is a step of a schedule: a kind of act on a ticket, and the milli-points that it earns.
type Act struct {
	Ticket int
	Kind   Kind
	Points int64
}

// PlayActs plays the acts in order and returns their weighted score and the acts that were played.
// An act is skipped if no minutes or no escalation are left for it; a shorter one after it may
// still fit.
func PlayActs(cases [Size]Case, acts []Act) (weighted int64, played []Act) {
	return playInPlace(&cases, slices.Clone(acts))
}

// playInPlace appends the played acts to acts[:0], so it allocates no list.
func playInPlace(cases *[Size]Case, acts []Act) (weighted int64, played []Act) {
	clock, slots := 0, Slots
	var points [Size]int64
	answered := [Size]int{Never, Never, Never, Never, Never}
	played = acts[:0]
	for _, a := range acts {
		if clock+a.Kind.Minutes() > Minutes || a.Kind == Escalate && slots == 0 {
			continue
		}
		played = append(played, a)
		clock += a.Kind.Minutes()
		points[a.Ticket] += a.Points
		switch {
		case a.Kind == Escalate:
			slots--
		case a.Kind == Reply && answered[a.Ticket] == Never:
			answered[a.Ticket] = clock
		}
	}
	for i, c := range cases {
		weighted += WeightedScore(c.Priority, points[i], answered[i])
	}
	return weighted, played
}
