package score

import (
	"math"
	"math/big"

	"gonum.org/v1/gonum/stat/distuv"
)

// Figures are what a run reports. Scores, rates and errors are in micro-points; [Decimal] writes
// them.
type Figures struct {
	Episodes int64
	Scored   int64
	Failed   int64
	Errored  int64
	Retried  int64
	Estimate
	// Min, P50 and Max are 0 without episodes. P50 is read off the histogram and so within 1/Bins
	// of the median.
	Min, P50, Max int64
	// PassHatK has an entry for each k up to MaxK for which some scenario has k trials.
	PassHatK []PassHatK
	Tasks    []TaskFigures
	// Categories, Difficulties and Languages are those of scenarios, ordered by name. Beyond as
	// many as a status lists, the last are added up as OtherGroup.
	Categories   []GroupFigures
	Difficulties []GroupFigures
	Languages    []GroupFigures
	// Errors are ordered by class.
	Errors []ErrorFigures
	Tokens Tokens
	// Stored has the number of episodes in the result store, and the error of the first shard that
	// has one.
	Stored Stored
	// EpisodeP50 and EpisodeP99 are durations in milliseconds, as runners reported them; 0 when
	// they reported none.
	EpisodeP50, EpisodeP99 int64
}

// Estimate is a mean over episodes with its uncertainty over scenarios.
type Estimate struct {
	// Mean is the sum of scores over the number of episodes, 0 without episodes.
	Mean int64
	// StandardError is clustered by scenario, CI95 the t-interval with one degree of freedom less
	// than there are scenarios. Both are nil with fewer than two.
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

// PassHatK is the chance that k trials of a scenario all pass, averaged over (task, scenario)
// pairs: the unbiased C(c,k)/C(n,k) of tau-bench (Yao et al., arXiv:2406.12045).
type PassHatK struct {
	K     int
	Value int64
}

// TaskFigures are a task's figures.
type TaskFigures struct {
	Name     string
	Episodes int64
	Estimate
	Min, P50, Max int64
	PassHatK      []PassHatK
	Dimensions    []DimensionFigures
}

// DimensionFigures are the mean points per episode, earned and offered, of one dimension in
// micro-points.
type DimensionFigures struct {
	Name string
	Mean int64
	Max  int64
}

// ErrorFigures count one class of errors: attempts that failed so and were made again, and episodes
// that were given up for it.
type ErrorFigures struct {
	Class            string
	Retried, Errored int64
}

// GroupFigures are the figures of the scenarios that share a category, a difficulty or a language.
type GroupFigures struct {
	Name     string
	Episodes int64
	Estimate
}

// Figures computes what the accumulator's sums come to. It changes nothing and may be called at any
// time.
func (a *Accumulator) Figures() Figures {
	all := a.allTasks()
	f := Figures{
		Episodes: a.overall.episodes, Scored: a.Scored, Failed: a.Failed, Errored: a.Errored, Retried: a.Retried,
		Estimate: a.overall.estimate(), P50: all.median(), Max: all.Max, PassHatK: all.passFigures(),
		EpisodeP50: a.durations.Quantile(0.5), EpisodeP99: a.durations.Quantile(0.99),
		Categories: groupFigures(a.categories), Difficulties: groupFigures(a.difficulties),
		Languages: groupFigures(a.languages),
		Tokens:    a.Tokens, Stored: Stored{Episodes: a.Stored, Error: a.storeError.text},
	}
	for _, c := range a.classes {
		f.Errors = append(f.Errors, ErrorFigures{Class: c.name, Retried: c.sums.retried, Errored: c.sums.errored})
	}
	if a.overall.episodes > 0 {
		f.Min = all.Min
	}
	for i := range a.tasks {
		f.Tasks = append(f.Tasks, a.tasks[i].figures())
	}
	return f
}

// allTasks merges what is kept by task alone.
func (a *Accumulator) allTasks() *taskFold {
	all := &taskFold{TaskSums: TaskSums{Min: One}}
	for i := range a.tasks {
		all.merge(&a.tasks[i])
	}
	return all
}

func groupFigures(groups groups[clusterSums]) []GroupFigures {
	if len(groups) == 0 {
		return nil
	}
	figures := make([]GroupFigures, len(groups))
	for i := range groups {
		figures[i] = GroupFigures{Name: groups[i].name, Episodes: groups[i].sums.episodes,
			Estimate: groups[i].sums.estimate()}
	}
	return figures
}

func (t *taskFold) figures() TaskFigures {
	f := TaskFigures{
		Name: t.Name, Episodes: t.Episodes, Estimate: t.clusterSums.estimate(),
		Min: t.Min, P50: t.median(), Max: t.Max, PassHatK: t.passFigures(),
	}
	for _, d := range t.Dimensions {
		f.Dimensions = append(f.Dimensions, DimensionFigures{Name: d.Name, Mean: mean(d.Earned*1000, t.Episodes),
			Max: mean(d.Offered*1000, t.Episodes)})
	}
	return f
}

func (t *taskFold) passFigures() []PassHatK {
	var figures []PassHatK
	for k, p := range t.passHatK {
		if p.scenarios > 0 {
			figures = append(figures, PassHatK{K: k + 1, Value: mean(p.nano, p.scenarios*(nano/One))})
		}
	}
	return figures
}

// mean is sum/n rounded half away from zero, 0 for n = 0.
func mean(sum, n int64) int64 {
	if n == 0 {
		return 0
	}
	if sum < 0 {
		return -mean(-sum, n)
	}
	return (sum + n/2) / n
}

// median interpolates within the histogram's bin that holds the middle, and stays within the least
// and the greatest score.
func (t *TaskSums) median() int64 {
	var below int64
	for i, n := range t.Hist {
		if n > 0 && 2*(below+n) >= t.Episodes {
			inside := float64(t.Episodes-2*below) / float64(2*n)
			value := (float64(i) + inside) * One / Bins
			return min(max(int64(math.Round(value)), t.Min), t.Max)
		}
		below += n
	}
	return 0
}

// estimate is the ratio estimator m = Σs/Σn over clusters, with the variance G/(G-1) · Σ(s - m·n)²
// / N² (Cochran, Sampling Techniques, 3rd ed., section 6.4; for evaluations: Miller, "Adding Error
// Bars to Evals", arXiv:2411.00640) and a t-interval of G-1 degrees of freedom.
func (c *clusterSums) estimate() Estimate {
	e := Estimate{Mean: mean(c.score, c.episodes), PassRate: mean(c.passes*One, c.episodes), PassRateCI95: c.wilson(),
		Scenarios: c.clusters}
	e.StandardError, e.CI95 = c.interval(0)
	return e
}

// interval is the standard error of the mean score and its t-interval, no lower than least; nil
// with fewer than two clusters.
func (c *clusterSums) interval(least float64) (*int64, *Interval) {
	if c.clusters < 2 {
		return nil, nil
	}
	se := c.standardError()
	m := float64(c.score) / float64(c.episodes)
	half := se * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(c.clusters - 1)}.Quantile(0.975)
	return new(int64(math.Round(se))), &Interval{Low: clamp(m-half, least), High: clamp(m+half, least)}
}

// wilson is the score interval of Wilson (Journal of the American Statistical Association 22, 1927)
// at 95 % for the pass rate p. Trials of a scenario resemble each other, so they are not that many
// independent draws: n is Kish's effective number of clusters N²/Σn² (Survey Sampling, 1965), which
// is the number of scenarios where all have as many trials. That is right where the trials of a
// scenario all agree and wide where they don't. It needs no variance, and so holds where everything
// passes or nothing does.
func (c *clusterSums) wilson() *Interval {
	if c.episodes == 0 {
		return nil
	}
	squares, _ := new(big.Float).SetInt(&c.episodesSquared).Float64()
	n := float64(c.episodes) * float64(c.episodes) / squares
	p := float64(c.passes) / float64(c.episodes)
	z := distuv.UnitNormal.Quantile(0.975)
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return &Interval{Low: clamp((centre-half)*One, 0), High: clamp((centre+half)*One, 0)}
}

// standardError is in micro-points. The sum of squares N²Σs² - 2SNΣsn + S²Σn² is exact, for it is a
// small difference of large numbers.
func (c *clusterSums) standardError() float64 {
	n, s := big.NewInt(c.episodes), big.NewInt(c.score)
	squares := new(big.Int).Mul(new(big.Int).Mul(n, n), &c.scoreSquared)
	cross := new(big.Int).Mul(new(big.Int).Mul(s, n), &c.scoreEpisodes)
	squares.Sub(squares, cross.Lsh(cross, 1))
	squares.Add(squares, new(big.Int).Mul(new(big.Int).Mul(s, s), &c.episodesSquared))
	squares.Mul(squares, big.NewInt(c.clusters))
	divisor := new(big.Int).Exp(n, big.NewInt(4), nil)
	divisor.Mul(divisor, big.NewInt(c.clusters-1))
	variance, _ := new(big.Rat).SetFrac(squares, divisor).Float64()
	// Never below 0 for sums that some ledgers could have made; a status that somebody edited holds
	// others.
	return math.Sqrt(max(variance, 0))
}

func clamp(micro, least float64) int64 { return int64(math.Round(min(max(micro, least), One))) }
