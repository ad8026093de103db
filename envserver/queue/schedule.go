// Package queue is the arithmetic of a shift: five tickets that have all come in, 36 simulated
// minutes in which not everything fits, and two escalations.
//
// A ticket's points count by the urgency that it really has, and in full only if its first reply
// came in time. The score of a shift is what was earned over what the best of 240 schedules earns
// with perfect answers: every order of the tickets, each taken one by one or labelled all at once
// before the first reply. So the score tells how well the minutes were used, whatever tickets came
// in. A schedule of another kind may earn more than that, which counts as full.
//
// Everything is whole numbers: points and factors are thousandths, worth is their product times the
// weight. The environment, the oracle and the checks of the catalogue all count by this package, so
// they can't disagree.
package queue

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

// Minutes is what the act takes.
func (k Kind) Minutes() int {
	switch k {
	case Reply:
		return 5
	case Escalate:
		return 2
	default:
		return 1
	}
}

// Perfect is what a perfect act earns, in milli-points. It is what the grader offers for the part.
func (k Kind) Perfect() int64 {
	switch k {
	case Priority:
		return 100
	case Reply:
		return 500
	default:
		return 200
	}
}

// Weight is how much a ticket of the priority counts.
func Weight(priority string) int64 {
	switch priority {
	case "urgent":
		return 4
	case "high":
		return 3
	case "medium":
		return 2
	default:
		return 1
	}
}

// Limit is the minute by which a ticket of the priority should have its first reply.
func Limit(priority string) int {
	switch priority {
	case "urgent":
		return 10
	case "high":
		return 20
	case "medium":
		return 45
	default:
		return 90
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

// Factor is what the minute of the first reply makes of a ticket's points, in thousandths, rounded
// half up: it falls evenly from InTime at the limit to TooLate at twice the limit.
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

// WeightedScore is what a ticket adds to a shift: weight, milli-points and factor multiplied.
func WeightedScore(priority string, points int64, answered int) int64 {
	return Weight(priority) * points * Factor(priority, answered)
}

// Case is what the worth of a ticket depends on.
type Case struct {
	Priority string
	Escalate bool
}

// Act is a step of a schedule: what is done to which ticket, and the milli-points that it earns.
type Act struct {
	Ticket int
	Kind   Kind
	Points int64
}

// shift is the state of a schedule that is being played.
type state struct {
	clock, slots int
	points       [Size]int64
	answered     [Size]int
}

func newState() state {
	return state{slots: Slots, answered: [Size]int{Never, Never, Never, Never, Never}}
}

// fits reports whether there are minutes and, for an escalation, a slot left.
func (s *state) fits(a Act) bool {
	return s.clock+a.Kind.Minutes() <= Minutes && (a.Kind != Escalate || s.slots > 0)
}

func (s *state) play(a Act) {
	s.clock += a.Kind.Minutes()
	s.points[a.Ticket] += a.Points
	switch {
	case a.Kind == Escalate:
		s.slots--
	case a.Kind == Reply && s.answered[a.Ticket] == Never:
		s.answered[a.Ticket] = s.clock
	}
}

func (s *state) weightedScore(cases *[Size]Case) int64 {
	var sum int64
	for i := range cases {
		sum += WeightedScore(cases[i].Priority, s.points[i], s.answered[i])
	}
	return sum
}

// Play plays the acts in order and returns what they are worth and those that were played. An act
// for which no minutes or no slot are left is passed over; a shorter one after it may still fit.
func Play(cases [Size]Case, acts []Act) (weighted int64, played []Act) {
	s := newState()
	for _, a := range acts {
		if s.fits(a) {
			s.play(a)
			played = append(played, a)
		}
	}
	return s.weightedScore(&cases), played
}
