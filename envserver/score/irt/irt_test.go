package irt

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// truth has the parameters from which responses are drawn.
type truth struct{ a, b, ability []float64 }

// draw draws parameters and responses. One in seven items wasn't played.
func draw(seed uint64, model Model, persons, items int, trials int64) (truth, [][]Count) {
	random := rand.New(rand.NewPCG(seed, 0))
	var t truth
	for range items {
		a := 1.3
		if model == TwoParameter {
			a = math.Exp(0.4 * random.NormFloat64())
		}
		t.a, t.b = append(t.a, a), append(t.b, 1.2*random.NormFloat64())
	}
	responses := make([][]Count, persons)
	for p := range responses {
		ability := random.NormFloat64()
		t.ability = append(t.ability, ability)
		responses[p] = make([]Count, items)
		for i := range items {
			if random.IntN(7) == 0 {
				continue
			}
			c := &responses[p][i]
			for c.Trials = range trials {
				if random.Float64() < 1/(1+math.Exp(-t.a[i]*(ability-t.b[i]))) {
					c.Passed++
				}
			}
			c.Trials = trials
		}
	}
	return t, responses
}

func estimate(t *testing.T, model Model, responses [][]Count) Fit {
	t.Helper()
	fit, err := Estimate(model, responses)
	if err != nil {
		t.Fatal(err)
	}
	return fit
}

// Of many estimates, about 95 % are within 1.96 standard errors of what the responses are drawn
// from. They share the error of the scale, so the bounds are wide; the errors of abilities don't
// include it.
func TestRecoversParameters(t *testing.T) {
	for name, tt := range map[string]struct {
		model          Model
		persons, items int
		trials         int64
	}{
		"1pl":              {OneParameter, 400, 30, 1},
		"1pl, four trials": {OneParameter, 100, 40, 4},
		"1pl, few persons": {OneParameter, 8, 100, 3},
		"2pl":              {TwoParameter, 600, 30, 1},
		"2pl, two trials":  {TwoParameter, 300, 30, 2},
	} {
		t.Run(name, func(t *testing.T) {
			want, responses := draw(11, tt.model, tt.persons, tt.items, tt.trials)
			fit := estimate(t, tt.model, responses)
			var a, b, ability tally
			for i, item := range fit.Items {
				a.add(item.Discrimination, want.a[i])
				b.add(item.Difficulty, want.b[i])
			}
			for p, person := range fit.Persons {
				ability.add(person.Ability, want.ability[p])
			}
			if a.covered() < 0.85 || b.covered() < 0.85 || ability.covered() < 0.7 {
				t.Errorf("within 1.96 standard errors are %.2f of the discriminations, %.2f of the difficulties, %.2f of "+
					"the abilities", a.covered(), b.covered(), ability.covered())
			}
			if b.correlation() < 0.9 || ability.correlation() < 0.9 {
				t.Errorf("correlation of the difficulties %.3f, of the abilities %.3f", b.correlation(),
					ability.correlation())
			}
		})
	}
}

// tally compares estimates with what they estimate.
type tally struct {
	got, want []float64
	within    int
}

func (c *tally) add(got Value, want float64) {
	c.got, c.want = append(c.got, got.Estimate), append(c.want, want)
	if math.Abs(got.Estimate-want) <= 1.96*got.Error {
		c.within++
	}
}

func (c *tally) covered() float64 { return float64(c.within) / float64(len(c.got)) }

func (c *tally) correlation() float64 { return stat.Correlation(c.got, c.want, nil) }

// The gradient and the information are the derivatives of the value, here by differences.
func TestDerivatives(t *testing.T) {
	for _, model := range []Model{OneParameter, TwoParameter} {
		_, responses := draw(3, model, 6, 4, 3)
		l := newLikelihood(model, responses, nodeSpacing)
		x := l.start()
		for k := range x {
			x[k] += 0.3 * float64(k%3-1)
		}
		l.evaluate(x)
		gradient, information := slices.Clone(l.gradient), l.information()
		value := func(x []float64) float64 { l.evaluate(x); return l.value }
		for k, want := range fd.Gradient(nil, value, x, &fd.Settings{Formula: fd.Central}) {
			if math.Abs(gradient[k]-want) > 1e-6 {
				t.Errorf("%s: slope %d is %g, by differences %g", model, k, gradient[k], want)
			}
		}
		var want mat.Dense
		want.ReuseAs(len(x), len(x))
		fd.Jacobian(&want, func(y, x []float64) { l.evaluate(x); copy(y, l.gradient) }, x,
			&fd.JacobianSettings{Formula: fd.Central})
		want.Scale(-1, &want)
		if !mat.EqualApprox(information, &want, 1e-6) {
			t.Errorf("%s: information\n%v\nby differences\n%v", model, mat.Formatted(information), mat.Formatted(&want))
		}
	}
}

func TestOrderOfPersonsIsIrrelevant(t *testing.T) {
	for _, model := range []Model{OneParameter, TwoParameter} {
		_, responses := draw(5, model, 9, 30, 2)
		forwards := estimate(t, model, responses)
		slices.Reverse(responses)
		backwards := estimate(t, model, responses)
		slices.Reverse(backwards.Persons)
		for i, item := range forwards.Items {
			same(t, item.Difficulty, backwards.Items[i].Difficulty)
			same(t, item.Discrimination, backwards.Items[i].Discrimination)
		}
		for p, person := range forwards.Persons {
			same(t, person.Ability, backwards.Persons[p].Ability)
		}
	}
}

func same(t *testing.T, a, b Value) {
	t.Helper()
	if math.Abs(a.Estimate-b.Estimate) > 1e-7 || math.Abs(a.Error-b.Error) > 1e-7 {
		t.Errorf("%v and %v", a, b)
	}
}

// The prior keeps the estimates finite where the likelihood has no maximum.
func TestDegenerateResponses(t *testing.T) {
	all := func(passed ...int64) [][]Count {
		responses := make([][]Count, len(passed))
		for p, n := range passed {
			responses[p] = slices.Repeat([]Count{{n, 3}}, 100)
		}
		return responses
	}
	sparse := make([][]Count, 5)
	for p := range sparse {
		sparse[p] = make([]Count, 5)
		sparse[p][p] = Count{1, 1}
	}
	for name, responses := range map[string][][]Count{
		"everybody passes":         all(3, 3, 3),
		"nobody passes":            all(0, 0, 0),
		"one passes all items":     all(3, 0, 0, 0),
		"everybody passes a third": all(1, 1, 1),
		"one item":                 {{{1, 1}}, {{0, 1}}, {{1, 1}}},
		"no shared items":          sparse,
		"no responses":             {{{}}, {{}}, {{}}},
	} {
		for _, model := range []Model{OneParameter, TwoParameter} {
			fit := estimate(t, model, responses)
			for _, item := range fit.Items {
				for _, v := range []Value{item.Difficulty, item.Discrimination} {
					if !(math.Abs(v.Estimate) < 10 && v.Error > 0 && v.Error < 10) {
						t.Fatalf("%s, %s: %+v", name, model, item)
					}
				}
			}
			for _, person := range fit.Persons {
				if !(math.Abs(person.Ability.Estimate) < 6 && person.Ability.Error > 0) {
					t.Errorf("%s, %s: %+v", name, model, person)
				}
			}
		}
	}
}

// Twice as many nodes change nothing, also if the items discriminate far more than usual.
func TestDenseEnoughNodes(t *testing.T) {
	responses := make([][]Count, 4)
	for p := range responses {
		for i := range 40 {
			c := Count{0, 30}
			if i < 10*p+5 {
				c.Passed = 30
			}
			responses[p] = append(responses[p], c)
		}
	}
	fit := estimate(t, OneParameter, responses)
	narrow := fit.Persons[0].Ability.Error
	for _, person := range fit.Persons {
		narrow = min(narrow, person.Ability.Error)
	}
	if fit.Items[0].Discrimination.Estimate < 3 {
		t.Fatalf("the discrimination is %v: the test needs a large one", fit.Items[0].Discrimination)
	}
	denser, err := newLikelihood(OneParameter, responses, narrow/2).maximize()
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range fit.Items {
		same(t, item.Difficulty, denser.Items[i].Difficulty)
		same(t, item.Discrimination, denser.Items[i].Discrimination)
	}
}

func TestWithoutResponsesThePriorRemains(t *testing.T) {
	fit := estimate(t, TwoParameter, [][]Count{{{}}, {{}}, {{}}})
	same(t, fit.Items[0].Difficulty, Value{0, priorIntercept})
	same(t, fit.Items[0].Discrimination, Value{1, priorLogDiscrimination})
	same(t, fit.Persons[0].Ability, Value{0, 1})
}

func TestRefusedResponses(t *testing.T) {
	for want, tt := range map[string]struct {
		model     Model
		responses [][]Count
	}{
		`there is no model "3pl": use 1pl or 2pl`:                        {"3pl", [][]Count{{{}}, {{}}, {{}}}},
		"need the responses of at least 3 persons, not 2":                {OneParameter, [][]Count{{{}}, {{}}}},
		"person 1 has responses to 2 items, person 0 to 1":               {OneParameter, [][]Count{{{}}, {{}, {}}, {{}}}},
		"person 0 has responses to 0 items, person 0 to 0: both must be": {OneParameter, [][]Count{{}, {}, {}}},
		"person 2 passed 2 of 1 trials of item 0":                        {OneParameter, [][]Count{{{}}, {{}}, {{2, 1}}}},
		"person 0 passed -1 of 1 trials of item 0":                       {OneParameter, [][]Count{{{-1, 1}}, {{}}, {{}}}},
	} {
		if _, err := Estimate(tt.model, tt.responses); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
