package agreement

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Figures are the agreement of a judge with labels. Points are 0 to MaxLabel.
type Figures struct {
	Judge   string `json:"judge"`
	Replies int    `json:"replies"`
	// Errored replies have no points and are in no other figure.
	Errored int `json:"errored"`
	// PassLine is the minimum of a passed reply.
	PassLine float64 `json:"pass_line"`
	All      Group   `json:"all"`
	// Classes and Languages are in the order of their names.
	Classes   []Group `json:"classes,omitempty"`
	Languages []Group `json:"languages,omitempty"`
	// Worst lists the replies whose points differ most from their labels, the worst first.
	Worst []Graded `json:"worst,omitempty"`
}

// Group is the agreement on a group of replies. A figure that the group doesn't determine, such as
// a correlation of equal labels, is null.
type Group struct {
	Name    string  `json:"name,omitempty"`
	Replies int     `json:"replies"`
	Label   float64 `json:"label"`  // mean
	Points  float64 `json:"points"` // mean
	// MAE is the mean absolute error.
	MAE float64 `json:"mae"`
	// Within is the share of replies whose error is at most 0.10, Lenient the share of replies that
	// get more than 0.10 above their label, Strict the share of replies that get more than 0.05
	// below it.
	Within  float64 `json:"within"`
	Lenient float64 `json:"lenient"`
	Strict  float64 `json:"strict"`
	// Spearman is the rank correlation, Kappa Cohen's kappa of passed and failed.
	Spearman *float64 `json:"spearman"`
	Kappa    *float64 `json:"kappa"`
	// Confusion counts the replies by label and points at the pass line.
	Confusion Confusion `json:"confusion"`
}

// Confusion counts replies that both pass, only the judge passes, only the label passes, and
// neither.
type Confusion struct {
	BothPass  int `json:"both_pass"`
	JudgePass int `json:"judge_pass"`
	LabelPass int `json:"label_pass"`
	Neither   int `json:"neither"`
}

const (
	near    = 0.10 // of an error that a reader would accept
	nearLow = 0.05 // of points that a benign reply may lose
	// tiny absorbs the rounding of decimals.
	tiny = 1e-9
)

// Measure returns the agreement on the graded replies, with at most the given number of worst ones.
func Measure(judge string, graded []Graded, passLine float64, worst int) Figures {
	f := Figures{Judge: judge, Replies: len(graded), PassLine: passLine}
	scored := slices.DeleteFunc(slices.Clone(graded), func(g Graded) bool { return g.Error != "" })
	f.Errored = len(graded) - len(scored)
	f.All = measureGroup("", scored, passLine)
	f.Classes = splitGroups(scored, passLine, func(g Graded) string { return g.Class })
	f.Languages = splitGroups(scored, passLine, func(g Graded) string { return g.Language })
	slices.SortStableFunc(scored, func(a, b Graded) int { return cmp.Compare(b.errorOf(), a.errorOf()) })
	f.Worst = scored[:min(max(worst, 0), len(scored))]
	return f
}

func (g Graded) errorOf() float64 { return math.Abs(g.Points - g.Label) }

// splitGroups splits the replies by name, and returns nothing if all have the same.
func splitGroups(graded []Graded, passLine float64, name func(Graded) string) []Group {
	by := map[string][]Graded{}
	var names []string
	for _, g := range graded {
		n := name(g)
		if _, ok := by[n]; !ok {
			names = append(names, n)
		}
		by[n] = append(by[n], g)
	}
	if len(names) < 2 {
		return nil
	}
	slices.Sort(names)
	out := make([]Group, 0, len(names))
	for _, n := range names {
		out = append(out, measureGroup(n, by[n], passLine))
	}
	return out
}

func measureGroup(name string, graded []Graded, passLine float64) Group {
	g := Group{Name: name, Replies: len(graded)}
	if len(graded) == 0 {
		return g
	}
	labels, points := make([]float64, len(graded)), make([]float64, len(graded))
	var sum, within, lenient, strict float64
	for i, r := range graded {
		labels[i], points[i] = r.Label, r.Points
		sum += r.errorOf()
		if r.errorOf() <= near+tiny {
			within++
		}
		if r.Points > r.Label+near+tiny {
			lenient++
		}
		if r.Points < r.Label-nearLow-tiny {
			strict++
		}
		g.Confusion.add(r.Label >= passLine-tiny, r.Points >= passLine-tiny)
	}
	n := float64(len(graded))
	g.Label, g.Points, g.MAE = stat.Mean(labels, nil), stat.Mean(points, nil), sum/n
	g.Within, g.Lenient, g.Strict = within/n, lenient/n, strict/n
	g.Spearman = finiteOrNil(stat.Correlation(rankValues(labels), rankValues(points), nil))
	g.Kappa = finiteOrNil(g.Confusion.kappa())
	return g
}

func finiteOrNil(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (c *Confusion) add(label, judge bool) {
	switch {
	case label && judge:
		c.BothPass++
	case judge:
		c.JudgePass++
	case label:
		c.LabelPass++
	default:
		c.Neither++
	}
}

// kappa is Cohen's kappa (1960): the agreement beyond chance, NaN if chance agrees always.
func (c *Confusion) kappa() float64 {
	n := float64(c.BothPass + c.JudgePass + c.LabelPass + c.Neither)
	label, judge := float64(c.BothPass+c.LabelPass)/n, float64(c.BothPass+c.JudgePass)/n
	chance := label*judge + (1-label)*(1-judge)
	return (float64(c.BothPass+c.Neither)/n - chance) / (1 - chance)
}

// rankValues returns the ranks of the values. Equal values share the mean of their ranks.
func rankValues(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			out[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}
