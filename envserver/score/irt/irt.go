// Package irt estimates the difficulty and the discrimination of items and the ability of persons
// by item response theory. For csenv, items are scenarios and persons are runs.
//
// The models are the logistic ones of Birnbaum (in Lord and Novick, Statistical Theories of Mental
// Test Scores, 1968): a person of ability θ passes an item of difficulty b and discrimination a
// with the probability 1/(1+exp(-a(θ-b))). Responses are independent given θ, and the trials of an
// item by one person are binomial. Abilities are in units of the standard normal distribution, from
// which persons are taken to be drawn; difficulties are on the same scale.
//
// Item parameters maximize the marginal likelihood, in which abilities are integrated out (Bock and
// Aitkin, Psychometrika 46, 1981), times the density of a weakly informative prior:
//
//	log a ~ N(0, 0.5²), ab ~ N(0, 3²)
//
// Its form is that of Mislevy (Psychometrika 51, 1986), and the prior of a the default one of
// BILOG-MG (Zimowski and others, 2003). That of the intercepts -ab, the logits of passing at
// ability 0, leaves 95 % to pass rates from 0.3 % to 99.7 %; a prior of b itself would raise the
// common discrimination if there are few persons and many items, because all b are smaller then.
// The prior keeps every estimate finite, also those of items that everybody or nobody passes, whose
// likelihood has no maximum.
//
// Few persons say little about items. Difficulties then order the items by their pass rates, and
// the location of the scale is known only as well as the mean of so many draws.
package irt

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// Model is the name of a model.
type Model string

const (
	// OneParameter gives all items the same discrimination, which is estimated: the Rasch model,
	// written with abilities of variance 1.
	OneParameter Model = "1pl"
	// TwoParameter gives each item a discrimination of its own.
	TwoParameter Model = "2pl"
)

// MinPersons is the least number of persons. Two persons determine an order of the items, but no
// distribution of abilities.
const MinPersons = 3

// The standard deviations of the prior.
const (
	priorLogDiscrimination = 0.5
	priorIntercept         = 3.0
)

// Count is how many trials of an item were passed.
type Count struct{ Passed, Trials int64 }

// Extreme reports whether all trials or none were passed, so that the prior alone bounds the
// estimate.
func (c Count) Extreme() bool { return c.Passed == 0 || c.Passed == c.Trials }

// Value is an estimate with its standard error.
type Value struct{ Estimate, Error float64 }

// Item has the parameters of an item and its responses by all persons. The error of Difficulty
// includes that of the scale, which all items share.
type Item struct {
	Difficulty, Discrimination Value
	Responses                  Count
}

// Person has the ability of a person and all their responses. Ability is the mean of its
// distribution given the responses (expected a posteriori: Bock and Mislevy, Applied Psychological
// Measurement 6, 1982), and its error the standard deviation. That takes the items as known, so it
// doesn't include the error of the scale.
type Person struct {
	Ability   Value
	Responses Count
}

// Fit has the estimates, in the order of the given items and persons.
type Fit struct {
	Items   []Item
	Persons []Person
}

// The ends of the maximization: the slope at which the search hands over to Newton's method, and
// the largest change of a parameter in its last step.
const (
	searchSlope = 1e-3
	lastStep    = 1e-7
	newtonSteps = 20
	searchSteps = 10_000
)

// Estimate fits a model to the responses of persons: responses[p][i] are those of person p to item
// i, with no trials if there are none. It fails if there are fewer than MinPersons persons, if a
// count is invalid, or if the maximum isn't found.
//
// Standard errors are from the observed information (see likelihood.information), by the delta
// method.
func Estimate(model Model, responses [][]Count) (Fit, error) {
	if err := check(model, responses); err != nil {
		return Fit{}, err
	}
	for spacing := firstSpacing(responses); ; spacing /= 2 {
		l := newLikelihood(model, responses, spacing)
		fit, err := l.maximize()
		if err != nil {
			return Fit{}, fmt.Errorf("fitting the %s model: %w", model, err)
		}
		if l.resolves(fit, spacing) {
			return fit, nil
		}
	}
}

// maximize returns the estimates at the maximum.
func (l *likelihood) maximize() (Fit, error) {
	problem := optimize.Problem{
		Func: func(x []float64) float64 { l.evaluate(x); return -l.value },
		Grad: func(grad, x []float64) { l.evaluate(x); floats.ScaleTo(grad, -1, l.gradient) },
	}
	found, err := optimize.Minimize(problem, l.start(), &optimize.Settings{GradientThreshold: searchSlope,
		Converger: optimize.NeverTerminate{}, MajorIterations: searchSteps}, &optimize.LBFGS{})
	if err != nil {
		return Fit{}, err
	}
	covariance, err := l.finish(found.X)
	if err != nil {
		return Fit{}, err
	}
	return l.fit(covariance), nil
}

func check(model Model, responses [][]Count) error {
	if model != OneParameter && model != TwoParameter {
		return fmt.Errorf("there is no model %q: use %s or %s", model, OneParameter, TwoParameter)
	}
	if len(responses) < MinPersons {
		return fmt.Errorf("item parameters need the responses of at least %d persons, not %d", MinPersons,
			len(responses))
	}
	for p, row := range responses {
		if len(row) == 0 || len(row) != len(responses[0]) {
			return fmt.Errorf("person %d has responses to %d items, person 0 to %d: both must be those to all items, "+
				"and there must be one", p, len(row), len(responses[0]))
		}
		for i, c := range row {
			if c.Passed < 0 || c.Passed > c.Trials {
				return fmt.Errorf("person %d passed %d of %d trials of item %d", p, c.Passed, c.Trials, i)
			}
		}
	}
	return nil
}

// finish goes from a point near the maximum to the maximum by Newton's method, and returns the
// covariance of the parameters there. The search alone would end at a point that depends on the
// order of the persons in digits that are shown.
func (l *likelihood) finish(x []float64) (*mat.SymDense, error) {
	x = slices.Clone(x)
	var covariance mat.SymDense
	for range newtonSteps {
		l.evaluate(x)
		var factors mat.Cholesky
		if !factors.Factorize(l.information()) {
			return nil, errors.New("the likelihood has no maximum where the search ended")
		}
		var step mat.VecDense
		if err := factors.SolveVecTo(&step, mat.NewVecDense(len(x), l.gradient)); err != nil {
			return nil, err
		}
		if floats.Norm(step.RawVector().Data, math.Inf(1)) < lastStep {
			if err := factors.InverseTo(&covariance); err != nil {
				return nil, err
			}
			return &covariance, nil
		}
		floats.Add(x, step.RawVector().Data)
	}
	return nil, fmt.Errorf("the parameters still change after %d of Newton's steps", newtonSteps)
}

// fit returns the estimates at the point of the last evaluation.
func (l *likelihood) fit(covariance *mat.SymDense) Fit {
	f := Fit{Items: make([]Item, l.items), Persons: make([]Person, len(l.responses))}
	for p, row := range l.responses {
		person := &f.Persons[p]
		for i, c := range row {
			person.Responses = person.Responses.plus(c)
			f.Items[i].Responses = f.Items[i].Responses.plus(c)
		}
		mean := floats.Dot(l.posterior[p], l.nodes)
		var variance float64
		for q, weight := range l.posterior[p] {
			variance += weight * (l.nodes[q] - mean) * (l.nodes[q] - mean)
		}
		person.Ability = Value{mean, math.Sqrt(variance)}
	}
	for i := range f.Items {
		slope, intercept := l.slope(i), l.intercept(i)
		a := math.Exp(l.at[slope])
		b := -l.at[intercept] / a
		f.Items[i].Discrimination = Value{a, a * math.Sqrt(covariance.At(slope, slope))}
		f.Items[i].Difficulty = Value{b, math.Sqrt(b*b*covariance.At(slope, slope) +
			2*b/a*covariance.At(slope, intercept) + covariance.At(intercept, intercept)/(a*a))}
	}
	return f
}

func (c Count) plus(o Count) Count { return Count{c.Passed + o.Passed, c.Trials + o.Trials} }
