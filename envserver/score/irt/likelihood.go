package irt

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// likelihood is the logarithm of the marginal likelihood times the prior, as a function of the
// parameters: the logarithms of the discriminations, one in all or one for each item, and then the
// intercepts, which are the logits of passing at ability 0.
type likelihood struct {
	model     Model
	responses [][]Count
	items     int
	// The integral over abilities is a sum over nodes.
	nodes, logWeights []float64

	// at is the point of the last evaluation. What follows is its result; the tables are by item
	// and node.
	at             []float64
	value          float64
	gradient       []float64
	z, softplus    [][]float64 // logit of passing, log(1+exp(z))
	probability    [][]float64
	passed, trials [][]float64 // expected counts of persons at a node
	posterior      [][]float64 // by person and node
}

// The nodes of the integral.
const (
	nodeBound   = 8.0  // on either side, in standard deviations: beyond, the density is less than 10⁻¹⁴
	nodeSpacing = 0.25 // at most
)

func newLikelihood(model Model, responses [][]Count, spacing float64) *likelihood {
	l := &likelihood{model: model, responses: responses, items: len(responses[0])}
	l.nodes, l.logWeights = quadrature(spacing)
	for _, table := range []*[][]float64{&l.z, &l.softplus, &l.probability, &l.passed, &l.trials} {
		*table = tableOf(l.items, len(l.nodes))
	}
	l.posterior = tableOf(len(responses), len(l.nodes))
	return l
}

func tableOf(rows, columns int) [][]float64 {
	table := make([][]float64, rows)
	for i := range table {
		table[i] = make([]float64, columns)
	}
	return table
}

// firstSpacing returns the spacing of nodes that suffices for discriminations up to 2: the ability
// of a person with n trials has a standard deviation of at least 1/√(1+a²n/4).
func firstSpacing(responses [][]Count) float64 {
	var most int64
	for _, row := range responses {
		var all Count
		for _, c := range row {
			all = all.plus(c)
		}
		most = max(most, all.Trials)
	}
	return min(nodeSpacing, 1/math.Sqrt(1+float64(most)))
}

// resolves reports whether the nodes are dense enough for the ability of every person. The error of
// the trapezoidal rule falls exponentially with the ratio of the standard deviation to the spacing
// (Trefethen and Weideman, SIAM Review 56, 2014): if they are equal, it is below 10⁻⁸.
func (l *likelihood) resolves(fit Fit, spacing float64) bool {
	return !slices.ContainsFunc(fit.Persons, func(p Person) bool { return p.Ability.Error < spacing })
}

// quadrature returns equidistant nodes and the logarithms of their weights under N(0,1).
func quadrature(spacing float64) (nodes, logWeights []float64) {
	half := int(math.Ceil(nodeBound / spacing))
	nodes, logWeights = make([]float64, 2*half+1), make([]float64, 2*half+1)
	for q := range nodes {
		nodes[q] = nodeBound * float64(q-half) / float64(half)
		logWeights[q] = -nodes[q] * nodes[q] / 2
	}
	floats.AddConst(-floats.LogSumExp(logWeights), logWeights)
	return nodes, logWeights
}

func (l *likelihood) slopes() int {
	if l.model == OneParameter {
		return 1
	}
	return l.items
}

// slope is the index of the logarithm of the item's discrimination.
func (l *likelihood) slope(item int) int { return min(item, l.slopes()-1) }

// intercept is the index of the item's intercept.
func (l *likelihood) intercept(item int) int { return l.slopes() + item }

// start returns the point from which the search starts: discriminations of 1, and the intercepts
// that give a person of ability 0 the item's pass rate, with one more trial that is half passed.
func (l *likelihood) start() []float64 {
	x := make([]float64, l.slopes()+l.items)
	for i := range l.items {
		var all Count
		for _, row := range l.responses {
			all = all.plus(row[i])
		}
		x[l.intercept(i)] = math.Log((float64(all.Passed) + 0.5) / (float64(all.Trials-all.Passed) + 0.5))
	}
	return x
}

// evaluate computes the value and its gradient at a point. The gradient is the expectation of that
// with known abilities (Fisher's identity).
func (l *likelihood) evaluate(x []float64) {
	if slices.Equal(l.at, x) {
		return
	}
	l.at, l.value, l.gradient = slices.Clone(x), 0, make([]float64, len(x))
	l.tabulate()
	for p := range l.responses {
		l.integrate(p)
	}
	for i := range l.items {
		slope, intercept := l.slope(i), l.intercept(i)
		a := math.Exp(x[slope])
		for q, node := range l.nodes {
			excess := l.passed[i][q] - l.trials[i][q]*l.probability[i][q]
			l.gradient[slope] += excess * a * node
			l.gradient[intercept] += excess
		}
	}
	for k, v := range x {
		precision := l.priorPrecision(k)
		l.value -= precision * v * v / 2
		l.gradient[k] -= precision * v
	}
}

// priorPrecision is the reciprocal of the variance of a parameter's prior.
func (l *likelihood) priorPrecision(parameter int) float64 {
	if parameter < l.slopes() {
		return 1 / (priorLogDiscrimination * priorLogDiscrimination)
	}
	return 1 / (priorIntercept * priorIntercept)
}

// tabulate computes the probabilities of passing, and empties the expected counts.
func (l *likelihood) tabulate() {
	for i := range l.items {
		a, intercept := math.Exp(l.at[l.slope(i)]), l.at[l.intercept(i)]
		for q, node := range l.nodes {
			z := a*node + intercept
			softplus := max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
			l.z[i][q], l.softplus[i][q], l.probability[i][q] = z, softplus, math.Exp(z-softplus)
		}
		clear(l.passed[i])
		clear(l.trials[i])
	}
}

// integrate adds the logarithm of a person's likelihood, and the person's responses to the expected
// counts at the nodes.
func (l *likelihood) integrate(person int) {
	weights := l.posterior[person]
	copy(weights, l.logWeights)
	for i, c := range l.responses[person] {
		if c.Trials > 0 {
			floats.AddScaled(weights, float64(c.Passed), l.z[i])
			floats.AddScaled(weights, -float64(c.Trials), l.softplus[i])
		}
	}
	total := floats.LogSumExp(weights)
	l.value += total
	for q := range weights {
		weights[q] = math.Exp(weights[q] - total)
	}
	for i, c := range l.responses[person] {
		if c.Trials > 0 {
			floats.AddScaled(l.passed[i], float64(c.Passed), weights)
			floats.AddScaled(l.trials[i], float64(c.Trials), weights)
		}
	}
}

// negligible is a posterior weight that changes no shown digit.
const negligible = 1e-14

// information returns the observed information at the point of the last evaluation, with the
// prior's: the expected information with known abilities, less the information that is missing
// because they aren't known, which is the variance of their score (Louis, Journal of the Royal
// Statistical Society B 44, 1982).
func (l *likelihood) information() *mat.SymDense {
	sum := mat.NewSymDense(len(l.at), nil)
	add := func(j, k int, v float64) { sum.SetSym(j, k, sum.At(j, k)+v) }
	for k := range l.at {
		add(k, k, l.priorPrecision(k))
	}
	for i := range l.items {
		slope, intercept := l.slope(i), l.intercept(i)
		a := math.Exp(l.at[slope])
		for q, node := range l.nodes {
			p := l.probability[i][q]
			excess, variance := l.passed[i][q]-l.trials[i][q]*p, l.trials[i][q]*p*(1-p)
			add(slope, slope, variance*a*a*node*node-excess*a*node)
			add(slope, intercept, variance*a*node)
			add(intercept, intercept, variance)
		}
	}
	for p := range l.responses {
		sum.SymRankK(sum, -1, l.scores(p))
	}
	return sum
}

// scores returns the deviations of a person's score from its mean, by parameter and node, each
// times the root of the node's weight.
func (l *likelihood) scores(person int) *mat.Dense {
	var at []int
	for q, weight := range l.posterior[person] {
		if weight > negligible {
			at = append(at, q)
		}
	}
	scores := mat.NewDense(len(l.at), len(at), nil)
	for i, c := range l.responses[person] {
		slope, intercept := scores.RawRowView(l.slope(i)), scores.RawRowView(l.intercept(i))
		a := math.Exp(l.at[l.slope(i)])
		for j, q := range at {
			excess := float64(c.Passed) - float64(c.Trials)*l.probability[i][q]
			slope[j] += excess * a * l.nodes[q]
			intercept[j] += excess
		}
	}
	for k := range l.at {
		row := scores.RawRowView(k)
		var mean float64
		for j, q := range at {
			mean += l.posterior[person][q] * row[j]
		}
		for j, q := range at {
			row[j] = math.Sqrt(l.posterior[person][q]) * (row[j] - mean)
		}
	}
	return scores
}
