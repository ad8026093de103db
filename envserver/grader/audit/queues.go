package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// QueueFigures are the average earnings of a way of working through queues, in thousandths.
type QueueFigures struct {
	Policy string
	// Raw is the share of all points of all five tickets, Relative the score: the best schedule
	// earns 1000.
	Raw      int64
	Relative int64
}

// PlayQueues plays every queue of the catalogue at the seeds, in the ways of working that the task
// must distinguish. The reader returns the category that keywords indicate. Without queues there
// are no figures.
func PlayQueues(c *scenarios.Catalog, read Reader, seeds ...int64) ([]QueueFigures, error) {
	composed := queue.ComposeQueues(c)
	var shifts []shift
	for _, q := range composed {
		for _, seed := range seeds {
			s, err := newShift(c, q, read, seed)
			if err != nil {
				return nil, err
			}
			shifts = append(shifts, s)
		}
	}
	return queueFigures(shifts), nil
}

// queuePass is the pass line of the task, in thousandths of the best schedule.
var queuePass = tasks.PassScore(tasks.QueueManagement) / 1000

// minQueues is the number of queues from which their means are meaningful.
const minQueues = 10

// checkQueueOrder checks that only working in the order of urgency passes the queues, even with
// perfect answers.
func checkQueueOrder(c *scenarios.Catalog) ([]scenarios.Finding, error) {
	if len(queue.ComposeQueues(c)) < minQueues {
		return nil, nil
	}
	figures, err := PlayQueues(c, NewCueReader(c), 0)
	if err != nil {
		return nil, err
	}
	var findings []scenarios.Finding
	for i, f := range figures {
		// The first two ways are the oracle and the order of urgency.
		if passes := f.Relative >= queuePass; passes != (i < 2) {
			findings = append(findings, scenarios.Finding{
				Position: "queues", Rule: ruleQueue,
				Message: fmt.Sprintf("%s earns %d of 1000: only working in the order of urgency should reach %d. "+
					"Vary the priorities of the tickets more", f.Policy, f.Relative, queuePass),
			})
		}
	}
	return findings, nil
}

// queued is a ticket of a queue with the properties that the ways of working use.
type queued struct {
	queue.Case
	level, tone string
	// cueRight reports whether keywords indicate the right category.
	cueRight bool
}

// shift is a queue, in the order of arrival.
type shift [queue.Size]queued

func newShift(c *scenarios.Catalog, q queue.Queue, read Reader, seed int64) (shift, error) {
	var s shift
	tickets, err := q.Instantiate(c, seed)
	for i, t := range tickets {
		s[i] = queued{Case: queue.CaseOf(&t.Served), level: t.Customer.AccountLevel, tone: t.Tone,
			cueRight: read(t) == t.Gold.Category}
	}
	return s, err
}

func (s *shift) cases() [queue.Size]queue.Case {
	var cases [queue.Size]queue.Case
	for i := range s {
		cases[i] = s[i].Case
	}
	return cases
}

// by returns the order of the tickets by a key, and by arrival for equal keys.
func (s *shift) by(key func(queued) int) [queue.Size]int {
	order := [queue.Size]int{0, 1, 2, 3, 4}
	slices.SortStableFunc(order[:], func(a, b int) int { return cmp.Compare(key(s[a]), key(s[b])) })
	return order
}

func arrivalKey(queued) int { return 0 }

func urgencyKey(q queued) int { return -int(queue.PriorityWeight(q.Priority)) }

func newRanking(values ...string) func(string) int {
	return func(v string) int { return slices.Index(values, v) }
}

// The points of poor replies, in milli-points.
const (
	boilerplate = 70  // fits every ticket
	weakReply   = 150 // has some words of the topic
)

// strategy is a way of working through a queue: the acts in order, including those that don't fit.
type strategy struct {
	name string
	acts func(*shift) []queue.Act
}

func listStrategies() []strategy {
	level, tone := newRanking("enterprise", "premium", "basic"), newRanking("angry", "worried", "neutral", "calm")
	ordered := func(key func(queued) int) func(*shift) []queue.Act {
		return func(s *shift) []queue.Act { return queue.OneByOne(s.cases(), s.by(key)) }
	}
	return []strategy{
		{"oracle", func(s *shift) []queue.Act { return queue.FindBestSchedule(s.cases()).Acts }},
		{"perfect answers, most urgent first", ordered(urgencyKey)},
		{"perfect answers, all labels first", func(s *shift) []queue.Act {
			return queue.LabelsFirst(s.cases(), s.by(urgencyKey))
		}},
		{"perfect answers, enterprise first", ordered(func(q queued) int { return level(q.level) })},
		{"perfect answers, first come first served", ordered(arrivalKey)},
		{"perfect answers, angriest first", ordered(func(q queued) int { return tone(q.tone) })},
		{"perfect answers, least urgent first", ordered(func(q queued) int { return -urgencyKey(q) })},
		{"perfect decisions, worthless replies", func(s *shift) []queue.Act {
			return clearReplyPoints(queue.OneByOne(s.cases(), s.by(arrivalKey)))
		}},
		{"keyword category, always medium, weak replies, resolve", (*shift).keywords},
		{"resolve everything with boilerplate", func(s *shift) []queue.Act { return s.boilerplate(queue.Resolve) }},
		{"labels only", func(s *shift) []queue.Act {
			return queue.LabelsFirst(s.cases(), s.by(arrivalKey))[:2*queue.Size]
		}},
		{"escalate everything with boilerplate", func(s *shift) []queue.Act { return s.boilerplate(queue.Escalate) }},
	}
}

func clearReplyPoints(acts []queue.Act) []queue.Act {
	for i := range acts {
		if acts[i].Kind == queue.Reply {
			acts[i].Points = 0
		}
	}
	return acts
}

func perfectIf(right bool, ticket int, kind queue.Kind) queue.Act {
	a := queue.Act{Ticket: ticket, Kind: kind}
	if right {
		a.Points = kind.Perfect()
	}
	return a
}

func (s *shift) keywords() []queue.Act {
	acts := make([]queue.Act, 0, 4*queue.Size)
	for i, q := range s {
		acts = append(acts, perfectIf(q.cueRight, i, queue.Category),
			perfectIf(q.Priority == "medium", i, queue.Priority),
			queue.Act{Ticket: i, Kind: queue.Reply, Points: weakReply}, perfectIf(!q.Escalate, i, queue.Resolve))
	}
	return acts
}

func (s *shift) boilerplate(end queue.Kind) []queue.Act {
	acts := make([]queue.Act, 0, 2*queue.Size)
	for i, q := range s {
		acts = append(acts, queue.Act{Ticket: i, Kind: queue.Reply, Points: boilerplate},
			perfectIf(q.Escalate == (end == queue.Escalate), i, end))
	}
	return acts
}

// queueFigures returns the means over the shifts, rounded once.
func queueFigures(shifts []shift) []QueueFigures {
	if len(shifts) == 0 {
		return nil
	}
	all := listStrategies()
	raw, relative := make([]float64, len(all)), make([]float64, len(all))
	for i := range shifts {
		s := &shifts[i]
		cases := s.cases()
		optimum, most := float64(queue.FindBestSchedule(cases).WeightedScore), 0.0
		for _, c := range cases {
			most += float64(queue.WeightedScore(c.Priority, 1000, 0))
		}
		for k, w := range all {
			worth, _ := queue.PlayActs(cases, w.acts(s))
			raw[k] += float64(worth) / most / float64(len(shifts))
			relative[k] += float64(worth) / optimum / float64(len(shifts))
		}
	}
	figures := make([]QueueFigures, len(all))
	for k, w := range all {
		figures[k] = QueueFigures{w.name, toThousandths(raw[k]), toThousandths(relative[k])}
	}
	return figures
}
