package stats

import (
	"math/big"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// MaxK is the largest k of pass^k.
const MaxK = 8

// nano is the unit of the pass^k of a (task, scenario) pair. Rounding each to 1e-9 keeps the sum an
// integer, and doesn't change a displayed digit.
const nano = 1_000_000_000

// PassHatK is the chance that k trials of a scenario all pass, averaged over (task, scenario)
// pairs. It is the unbiased estimator C(c,k)/C(n,k) of tau-bench (Yao et al., arXiv:2406.12045) for
// c passes in n trials.
type PassHatK struct {
	K     int
	Value int64
	// Pairs is the number of pairs with at least K trials.
	Pairs int64
}

// PassSums are the sums of pass^k for k from 1 to MaxK.
type PassSums [MaxK]passSum

// passSum is the sum over the pairs with at least k trials.
type passSum struct {
	pairs, nano int64
}

// Add adds a (task, scenario) pair.
func (p *PassSums) Add(episodes, passes int64) {
	for i := range p {
		k := int64(i + 1)
		if episodes < k {
			return
		}
		p[i].pairs++
		passing, all := new(big.Int).Binomial(passes, k), new(big.Int).Binomial(episodes, k)
		p[i].nano += roundedQuotient(passing.Mul(passing, big.NewInt(nano)), all)
	}
}

// roundedQuotient is x/y, rounded half up, for x >= 0 and y > 0.
func roundedQuotient(x, y *big.Int) int64 {
	twice := new(big.Int).Lsh(x, 1)
	twice.Add(twice, y)
	return twice.Quo(twice, new(big.Int).Lsh(y, 1)).Int64()
}

// Merge adds the sums over other pairs.
func (p *PassSums) Merge(o *PassSums) {
	for i := range p {
		p[i].pairs += o[i].pairs
		p[i].nano += o[i].nano
	}
}

// Figures has an entry for each k for which at least one pair has k trials.
func (p *PassSums) Figures() []PassHatK {
	var figures []PassHatK
	for i, sum := range p {
		if sum.pairs > 0 {
			figures = append(figures, PassHatK{K: i + 1, Value: Mean(sum.nano, sum.pairs*(nano/One)),
				Pairs: sum.pairs})
		}
	}
	return figures
}

// Code describes the encoding.
func (p *PassSums) Code(s *bitstream.Stream) {
	for i := range p {
		s.Numbers(&p[i].pairs, &p[i].nano)
	}
}
