// Package queue is the arithmetic of a shift: five tickets that have all come in, 36 simulated
// minutes, which are too few to do everything, and two escalations.
//
// A ticket's points are weighted by its true priority, and count in full if its first reply came in
// time. The score of a shift is what was earned over what the best of 240 schedules earns with
// perfect answers: every order of the tickets, each taken one by one or all labelled before the
// first reply. So the score measures the use of the minutes and not the difficulty of the tickets.
// A schedule of another kind can earn more than that, which counts as the full score.
//
// All numbers are integers: points and factors are thousandths, a weighted score is their product
// times the weight. The environment, the oracle and the checks of the catalogue share this package.
package queue

import "slices"

// Task is the name of the task.
const Task = "queue-management"

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

// By kind, the minutes that an act takes and the milli-points of a perfect one, which are the
// grader's.
var (
	minutesOf = [...]int{Category: 1, Priority: 1, Reply: 5, Resolve: 1, Escalate: 2}
	pointsOf  = [...]int64{Category: 200, Priority: 100, Reply: 500, Resolve: 200, Escalate: 200}
)

// Minutes is what the act takes.
func (k Kind) Minutes() int { return minutesOf[k] }

// Perfect is what a perfect act earns, in milli-points.
func (k Kind) Perfect() int64 { return pointsOf[k] }

// Weight is how much a ticket of the priority counts.
func Weight(priority string) int64 {
	weight, _ := terms(priority)
	return weight
}

// Limit is the minute by which a ticket of the priority should have its first reply.
func Limit(priority string) int {
	_, limit := terms(priority)
	return limit
}

func terms(priority string) (weight int64, limit int) {
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
	// InTime is that of a ticket whose first reply came within the limit.
	InTime = 1000
	// TooLate is that of a ticket whose first reply came after twice the limit or never.
	TooLate = 400
)

// Never is the minute of a first reply that wasn't sent.
const Never = -1

// Factor multiplies a ticket's points by the minute of its first reply, in thousandths, rounded
// half up: it falls linearly from InTime at the limit to TooLate at twice the limit.
func Factor(priority string, answered int) int64 {
	limit := Limit(priority)
	switch {
	case answered == Never, answered >= 2*limit:
		return TooLate
	case answered <= limit:
		return InTime
	}
	late, over := int64(answered-limit), int64(limit)
	return InTime - (2*(InTime-TooLate)*late+over)/(2*over)
}

// WeightedScore is what a ticket adds to a shift: the product of weight, milli-points and factor.
func WeightedScore(priority string, points int64, answered int) int64 {
	return Weight(priority) * points * Factor(priority, answered)
}

// Case are the properties that a ticket's weighted score depends on.
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

// Play plays the acts in order and returns their weighted score and the acts that were played. An
// act is skipped if no minutes or no escalation are left for it; a shorter one after it may still
// fit.
func Play(cases [Size]Case, acts []Act) (weighted int64, played []Act) {
	return play(&cases, slices.Clone(acts))
}

// play reuses acts for the list of acts that were played.
func play(cases *[Size]Case, acts []Act) (weighted int64, played []Act) {
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
