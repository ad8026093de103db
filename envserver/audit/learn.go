package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tasks"
	"github.com/csenv/csenv/scenarios"
)

const (
	// trainSplit is the split of the tickets that the learner is trained on. All others are held
	// out.
	trainSplit = "public-train"
	// groupSize is the number of answers that are sampled for each ticket.
	groupSize = 8
	// learningRate is the length of a step.
	learningRate = 2.0
	// evaluatedSeeds is the number of instances of each ticket that are evaluated.
	evaluatedSeeds = 6
)

// Learning is the result of training a policy.
type Learning struct {
	// Curve are the scores while training: at step 0, at powers of two, and after the last step.
	Curve []LearningPoint `json:"curve"`
	// Splits are the scores of the trained policy, the training split first.
	Splits []SplitScore `json:"splits"`
	// Gap is the score on the training split minus that on the others, in thousandths.
	Gap int64 `json:"gap"`
	// Words is the number of different words of the training instances.
	Words int `json:"words"`
}

// LearningPoint is the mean score on new instances after a number of steps, in thousandths.
type LearningPoint struct {
	Step    int   `json:"step"`
	Train   int64 `json:"train"`
	HeldOut int64 `json:"held_out"`
}

// SplitScore is the mean score on new instances of a split, in thousandths.
type SplitScore struct {
	Split   string `json:"split"`
	Tickets int    `json:"tickets"`
	Score   int64  `json:"score"`
}

// Learn trains a policy on the rewards of ticket-classify. Each step plays one instance of each
// ticket of the training split. The policy is measured on instances that it wasn't trained on. The
// same seed gives the same result. Without tickets to train on, or others, there is none.
//
// The policy is linear in the words of the ticket, with a softmax over the categories and one over
// the priorities, so it can only associate words with labels. What it earns on the training split
// and not on the others, it knows by the templates.
func Learn(ctx context.Context, c *scenarios.Catalog, steps int, seed int64) (*Learning, error) {
	train, heldOut := c.Tickets(), c.Tickets()
	train = slices.DeleteFunc(train, func(s *scenarios.TicketScenario) bool { return s.Split != trainSplit })
	heldOut = slices.DeleteFunc(heldOut, func(s *scenarios.TicketScenario) bool { return s.Split == trainSplit })
	if len(train) == 0 || len(heldOut) == 0 {
		return nil, nil
	}
	l := newLearner(seed)
	exam, err := l.exam(slices.Concat(train, heldOut))
	if err != nil {
		return nil, err
	}
	result := &Learning{}
	for step := 0; ; step++ {
		if step == steps || step&(step-1) == 0 {
			if err := result.measure(l, exam, step); err != nil {
				return nil, err
			}
		}
		if step == steps {
			result.Words = len(l.ids)
			return result, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := l.step(train); err != nil {
			return nil, err
		}
	}
}

// examined is a ticket on which a policy is measured.
type examined struct {
	ticket *scenarios.Ticket
	split  string
}

// measure adds a point to the curve, and sets the other figures to those after the step.
func (r *Learning) measure(l *learner, exam []examined, step int) error {
	totals, counts := map[string]int64{}, map[string]int64{}
	r.Splits = nil
	for _, e := range exam {
		reward, err := rewardOf(e.ticket, l.best(e.ticket))
		if err != nil {
			return err
		}
		group := "held out"
		if e.split == trainSplit {
			group = "train"
		}
		if counts[e.split] == 0 {
			r.Splits = append(r.Splits, SplitScore{Split: e.split})
		}
		for _, key := range []string{group, e.split} {
			totals[key] += reward
			counts[key]++
		}
	}
	mean := func(key string) int64 { return thousandths(float64(totals[key]) / float64(counts[key]) / score.One) }
	for i := range r.Splits {
		s := &r.Splits[i]
		s.Tickets, s.Score = int(counts[s.Split])/evaluatedSeeds, mean(s.Split)
	}
	point := LearningPoint{Step: step, Train: mean("train"), HeldOut: mean("held out")}
	r.Curve, r.Gap = append(r.Curve, point), point.Train-point.HeldOut
	return nil
}

func rewardOf(t *scenarios.Ticket, labels [2]string) (int64, error) {
	dims, err := grader.GradeTicket(&t.Served, tasks.TicketClassify,
		grader.Decisions{Category: labels[0], Priority: labels[1]}, grader.Verdict{})
	return grader.EpisodeScore(dims), err
}

// learner is a policy in training.
type learner struct {
	random *rand.Rand
	// ids number the words in the order in which they are met.
	ids map[string]int
	// heads choose the category and the priority.
	heads [2]head
}

// head is a softmax over labels. The weights are by label and word.
type head struct {
	labels  []string
	weights [][]float64
}

func newLearner(seed int64) *learner {
	random := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // no secret, and the bits count
	l := &learner{random: random, ids: map[string]int{}}
	for i, labels := range [][]string{scenarios.Categories(), scenarios.Priorities()} {
		l.heads[i] = head{labels, make([][]float64, len(labels))}
	}
	return l
}

// draw instantiates a ticket with a new seed.
func (l *learner) draw(s *scenarios.TicketScenario) (*scenarios.Ticket, error) {
	t, err := s.Instantiate(l.random.Int64N(1 << 53))
	if err != nil {
		return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
	}
	return t, nil
}

func (l *learner) exam(tickets []*scenarios.TicketScenario) ([]examined, error) {
	var exam []examined
	for _, s := range tickets {
		for range evaluatedSeeds {
			t, err := l.draw(s)
			if err != nil {
				return nil, err
			}
			exam = append(exam, examined{t, s.Split})
		}
	}
	return exam, nil
}

// step plays an instance of each ticket and follows the gradient of the rewards, as in GRPO: the
// advantage of an answer is its reward above the mean of the answers to the same ticket, in their
// standard deviations.
func (l *learner) step(train []*scenarios.TicketScenario) error {
	for _, s := range train {
		t, err := l.draw(s)
		if err != nil {
			return err
		}
		words := l.read(t, true)
		var answers [groupSize][2]int
		var rewards [groupSize]float64
		chances := [2][]float64{l.heads[0].chances(words), l.heads[1].chances(words)}
		for i := range answers {
			answers[i] = [2]int{l.sample(chances[0]), l.sample(chances[1])}
			reward, err := rewardOf(t, l.labels(answers[i]))
			if err != nil {
				return err
			}
			rewards[i] = float64(reward) / score.One
		}
		for i, advantage := range advantages(rewards) {
			for h := range l.heads {
				l.heads[h].follow(words, chances[h], answers[i][h], learningRate*advantage/groupSize)
			}
		}
	}
	return nil
}

// advantages are 0 if all rewards are equal.
func advantages(rewards [groupSize]float64) (out [groupSize]float64) {
	var mean, squares float64
	for _, r := range rewards {
		mean += r / groupSize
	}
	for _, r := range rewards {
		squares += (r - mean) * (r - mean) / groupSize
	}
	if squares < 1e-12 {
		return out
	}
	for i, r := range rewards {
		out[i] = (r - mean) / math.Sqrt(squares)
	}
	return out
}

// read returns the numbers of the different words that the agent sees. Words that are not numbered
// yet are numbered if grow is true, else left out.
func (l *learner) read(t *scenarios.Ticket, grow bool) []int {
	texts := append(t.ServedTexts(), t.Customer.AccountLevel)
	var ids []int
	for _, w := range wordsOf(strings.Join(texts, " ")) {
		id, known := l.ids[w]
		if !known && grow {
			id = len(l.ids)
			l.ids[w] = id
			for h := range l.heads {
				for k := range l.heads[h].weights {
					l.heads[h].weights[k] = append(l.heads[h].weights[k], 0)
				}
			}
		}
		if known || grow {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (l *learner) labels(answer [2]int) [2]string {
	return [2]string{l.heads[0].labels[answer[0]], l.heads[1].labels[answer[1]]}
}

// best returns the most probable labels of a ticket.
func (l *learner) best(t *scenarios.Ticket) [2]string {
	words := l.read(t, false)
	var answer [2]int
	for h := range l.heads {
		chances := l.heads[h].chances(words)
		answer[h] = slices.Index(chances, slices.Max(chances))
	}
	return l.labels(answer)
}

// sample draws an index by its chance.
func (l *learner) sample(chances []float64) int {
	x := l.random.Float64()
	for i, p := range chances {
		if x -= p; x < 0 {
			return i
		}
	}
	return len(chances) - 1
}

// chances returns the probabilities of the labels. The vector of a ticket's words has the length 1.
func (h *head) chances(words []int) []float64 {
	out := make([]float64, len(h.labels))
	sum := 0.0
	for k := range out {
		for _, w := range words {
			out[k] += h.weights[k][w]
		}
		out[k] = math.Exp(out[k] / math.Sqrt(float64(max(len(words), 1))))
		sum += out[k]
	}
	for k := range out {
		out[k] /= sum
	}
	return out
}

// follow moves the weights along the gradient of the logarithm of an answer's probability.
func (h *head) follow(words []int, chances []float64, answer int, rate float64) {
	rate /= math.Sqrt(float64(max(len(words), 1)))
	for k := range h.weights {
		slope := -chances[k]
		if k == answer {
			slope++
		}
		for _, w := range words {
			h.weights[k][w] += rate * slope
		}
	}
}
