// Package stats estimates scores from sums: means with their errors over scenarios, pass rates,
// pass^k and durations.
//
// Every sum is an exact integer, so addition is associative and commutative, and the estimates
// don't depend on the order in which shards end. Floating point is used only in the last step.
// Scores, rates and errors are in micro-points.
package stats

import (
	"errors"
	"math"
	"math/big"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// One is the full score in micro-points.
const One = 1_000_000

// Clusters are sums over clusters. A cluster is a scenario with n episodes that score s in all. The
// sums are what a ratio estimator and its variance need.
type Clusters struct {
	Count, Episodes, Passes int64
	Score                   int64   // Σ s
	scoreSquared            big.Int // Σ s²
	scoreEpisodes           big.Int // Σ s·n
	episodesSquared         big.Int // Σ n²
}

// Add adds a cluster.
func (c *Clusters) Add(episodes, passes, score int64) {
	c.Count++
	c.Episodes += episodes
	c.Passes += passes
	c.Score += score
	s, n := big.NewInt(score), big.NewInt(episodes)
	addProduct(&c.scoreSquared, s, s)
	addProduct(&c.scoreEpisodes, s, n)
	addProduct(&c.episodesSquared, n, n)
}

func addProduct(sum, x, y *big.Int) { sum.Add(sum, new(big.Int).Mul(x, y)) }

// Merge adds the sums over other clusters.
func (c *Clusters) Merge(o *Clusters) {
	c.Count += o.Count
	c.Episodes += o.Episodes
	c.Passes += o.Passes
	c.Score += o.Score
	c.scoreSquared.Add(&c.scoreSquared, &o.scoreSquared)
	c.scoreEpisodes.Add(&c.scoreEpisodes, &o.scoreEpisodes)
	c.episodesSquared.Add(&c.episodesSquared, &o.episodesSquared)
}

// Code describes the encoding.
func (c *Clusters) Code(s *bitstream.Stream) {
	s.Numbers(&c.Count, &c.Episodes, &c.Passes, &c.Score)
	for _, v := range []*big.Int{&c.scoreSquared, &c.scoreEpisodes, &c.episodesSquared} {
		s.Natural(v)
	}
}

// Validate refuses sums that are impossible for that number of episodes.
func (c *Clusters) Validate(episodes int64) error {
	if c.Count > c.Episodes || c.Episodes > episodes || c.Passes > c.Episodes || c.Score > c.Episodes*One {
		return errors.New("impossible sums")
	}
	return nil
}

// Estimate is a mean over episodes with its uncertainty over scenarios.
type Estimate struct {
	// Mean is the sum of scores over the number of episodes, 0 without episodes.
	Mean int64
	// StandardError is clustered by scenario. CI95 is the t-interval with one degree of freedom
	// less than there are scenarios. Both are nil with fewer than two scenarios.
	StandardError *int64
	CI95          *Interval
	PassRate      int64
	// PassRateCI95 is the Wilson interval of the pass rate, each scenario taken as one draw. It is
	// nil without episodes.
	PassRateCI95 *Interval
	Scenarios    int64
}

// Interval is a confidence interval, clamped to [0, One].
type Interval struct {
	Low, High int64
}

// Estimate estimates the mean score and the pass rate. The mean is the ratio estimator m = Σs/Σn
// over G clusters. Its variance is G/(G-1) · Σ(s - m·n)² / N² (Cochran, Sampling Techniques, 3rd
// ed., section 6.4; for evaluations: Miller, "Adding Error Bars to Evals", arXiv:2411.00640).
func (c *Clusters) Estimate() Estimate {
	e := Estimate{Mean: Mean(c.Score, c.Episodes), PassRate: Mean(c.Passes*One, c.Episodes), PassRateCI95: c.wilson(),
		Scenarios: c.Count}
	e.StandardError, e.CI95 = c.Interval(0)
	return e
}

// Interval returns the standard error of the mean score and its t-interval with G-1 degrees of
// freedom, clamped to [least, One]. Both are nil with fewer than two clusters.
func (c *Clusters) Interval(least float64) (*int64, *Interval) {
	if c.Count < 2 {
		return nil, nil
	}
	se := c.standardError()
	m := float64(c.Score) / float64(c.Episodes)
	half := se * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(c.Count - 1)}.Quantile(0.975)
	return new(int64(math.Round(se))), &Interval{Low: clampMicro(m-half, least), High: clampMicro(m+half, least)}
}

// wilson returns the score interval of Wilson (Journal of the American Statistical Association 22,
// 1927) at 95 % for the pass rate p. Trials of a scenario are correlated, so n isn't the number of
// episodes but Kish's effective number of clusters N²/Σn² (Survey Sampling, 1965), which equals the
// number of scenarios if all have the same number of trials. The interval is exact if all trials of
// a scenario agree, and too wide otherwise. It needs no variance, so it is also valid if all
// episodes pass or none does.
func (c *Clusters) wilson() *Interval {
	if c.Episodes == 0 {
		return nil
	}
	squares, _ := new(big.Float).SetInt(&c.episodesSquared).Float64()
	n := float64(c.Episodes) * float64(c.Episodes) / squares
	p := float64(c.Passes) / float64(c.Episodes)
	z := distuv.UnitNormal.Quantile(0.975)
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return &Interval{Low: clampMicro((centre-half)*One, 0), High: clampMicro((centre+half)*One, 0)}
}

// standardError computes the sum of squares N²Σs² - 2SNΣsn + S²Σn² exactly, because it is a small
// difference of large numbers.
func (c *Clusters) standardError() float64 {
	n, s := big.NewInt(c.Episodes), big.NewInt(c.Score)
	squares := new(big.Int).Mul(new(big.Int).Mul(n, n), &c.scoreSquared)
	cross := new(big.Int).Mul(new(big.Int).Mul(s, n), &c.scoreEpisodes)
	squares.Sub(squares, cross.Lsh(cross, 1))
	squares.Add(squares, new(big.Int).Mul(new(big.Int).Mul(s, s), &c.episodesSquared))
	squares.Mul(squares, big.NewInt(c.Count))
	divisor := new(big.Int).Exp(n, big.NewInt(4), nil)
	divisor.Mul(divisor, big.NewInt(c.Count-1))
	variance, _ := new(big.Rat).SetFrac(squares, divisor).Float64()
	// Negative only for the sums of an edited status.
	return math.Sqrt(max(variance, 0))
}

func clampMicro(micro, least float64) int64 { return int64(math.Round(min(max(micro, least), One))) }

// Mean is sum/n rounded half away from zero, 0 for n = 0.
func Mean(sum, n int64) int64 {
	if n == 0 {
		return 0
	}
	if sum < 0 {
		return -Mean(-sum, n)
	}
	return (sum + n/2) / n
}
