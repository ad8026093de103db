package score

// Report is what an environment pod says of itself on /stats, and what the controllers read: the
// wire between them.
type Report struct {
	Environment    string   `json:"environment"`
	ScenarioDigest string   `json:"scenarioDigest"`
	GraderVersion  string   `json:"graderVersion"`
	Judge          string   `json:"judge"`
	Draining       bool     `json:"draining"`
	Sessions       Sessions `json:"sessions"`
	Episodes       Episodes `json:"episodes"`
	Tasks          []Task   `json:"tasks"`
	// JudgeFailures are the replies that could not be judged, and Cut the sessions that a drain's
	// timeout ended, since the server started.
	JudgeFailures int64 `json:"judgeFailures"`
	Cut           int64 `json:"cut"`
	// Runs are the evaluation runs whose ledgers the pod keeps, at most MaxRunReports: those that
	// were played last, ordered by UID.
	Runs []RunReport `json:"runs,omitempty"`
	// Packs is what a server started now would play, nil for one that reads no packs.
	Packs *Packs `json:"packs,omitempty"`
}

// Packs is what would be played of the scenario packs as they are now: their digest, or, where
// something is wrong with them, each fault on a line as FILE:LINE: CAUSE.
type Packs struct {
	Digest string `json:"digest"`
	Error  string `json:"error,omitempty"`
}

// DrainReport is the result of the drain of a server: the JSON of its container's termination
// message, for nobody can ask it afterwards.
type DrainReport struct {
	// Sessions is how many were open when the drain began, and Cut how many of those its timeout
	// ended.
	Sessions int64 `json:"sessions"`
	Cut      int64 `json:"cut"`
	// Seconds is how long the drain took.
	Seconds int64 `json:"seconds"`
}

// MaxRunReports bounds the runs of a report.
const MaxRunReports = 256

// RunReport is what a pod has of one run: the episodes that are being played, and those in its
// ledgers. It is for a display of progress; what counts are the ledgers.
type RunReport struct {
	// Run is the UID of the EvaluationRun.
	Run    string `json:"run"`
	Active int64  `json:"active"`
	Scored int64  `json:"scored"`
	Failed int64  `json:"failed"`
	// Errored counts attempts that the pod gave up.
	Errored int64 `json:"errored"`
	// ScoreSum is in micro-points, over scored and failed episodes.
	ScoreSum int64 `json:"scoreSum"`
}

// Plus adds what another pod has of the run.
func (r RunReport) Plus(o RunReport) RunReport {
	return RunReport{
		Run: o.Run, Active: r.Active + o.Active, Scored: r.Scored + o.Scored, Failed: r.Failed + o.Failed,
		Errored: r.Errored + o.Errored, ScoreSum: r.ScoreSum + o.ScoreSum,
	}
}

// Sessions are a pod's sessions now and at most.
type Sessions struct {
	Active   int64 `json:"active"`
	Capacity int64 `json:"capacity"`
}

// Episodes are the episodes that a pod has ended since it started. ScoreSum is in micro-points,
// over scored and failed ones.
type Episodes struct {
	Scored   int64 `json:"scored"`
	Failed   int64 `json:"failed"`
	Errored  int64 `json:"errored"`
	ScoreSum int64 `json:"scoreSum"`
}

// Task is a task that a pool offers.
type Task struct {
	Name      string     `json:"name"`
	Scenarios []Scenario `json:"scenarios"`
}

// Scenario is what the control plane may know of a scenario.
type Scenario struct {
	ID         string `json:"id"`
	Category   string `json:"category"`
	Difficulty string `json:"difficulty"`
	Language   string `json:"language"`
	Split      string `json:"split"`
}
