package score

// Protocol is the version of what this release's runners send. Raise it if servers of the previous
// release would not understand them.
const Protocol = 1

// Report is the reply of a server to /stats, which the controllers read.
type Report struct {
	// Protocol is the runners' protocol that the server plays, 0 for a server of a release
	// before their credentials named a plan.
	Protocol       int      `json:"protocol,omitempty"`
	Environment    string   `json:"environment"`
	ScenarioDigest string   `json:"scenarioDigest"`
	GraderVersion  string   `json:"graderVersion"`
	Judge          string   `json:"judge"`
	Draining       bool     `json:"draining"`
	Sessions       Sessions `json:"sessions"`
	Episodes       Episodes `json:"episodes"`
	Tasks          []Task   `json:"tasks"`
	// Counts since the server started. JudgeFailures counts the replies that could not be judged,
	// and Cut the sessions that were closed by the drain timeout.
	JudgeFailures int64 `json:"judgeFailures"`
	Cut           int64 `json:"cut"`
	// JudgeFault is why the judge can't grade, for which the server admits no session. It is "" if
	// the judge can grade or hasn't been tried.
	JudgeFault string `json:"judgeFault,omitempty"`
	// Runs are those that the query names by UID, as run, or without names any, at most
	// MaxRunReports of them.
	Runs []RunReport `json:"runs,omitempty"`
	// Packs are the packs that a server started now would play, nil if it reads no packs.
	Packs *Packs `json:"packs,omitempty"`
}

// Packs has the digest of the current scenario packs. If they are invalid, Error has each fault on
// a line as FILE:LINE: CAUSE.
type Packs struct {
	Digest string `json:"digest"`
	Error  string `json:"error,omitempty"`
}

// DrainReport is the result of the drain of a server. Its JSON is the container's termination
// message, because the server can't be queried afterwards.
type DrainReport struct {
	// Sessions is the number of open sessions when the drain began. Cut is the number of them that
	// the drain timeout closed.
	Sessions int64 `json:"sessions"`
	Cut      int64 `json:"cut"`
	// Seconds is the duration of the drain.
	Seconds int64 `json:"seconds"`
}

// MaxRunReports bounds the runs of a report, whose UIDs are in the URL of the request.
const MaxRunReports = 128

// RunReport counts the episodes of one run on a server, played and being played. A run's figures
// come from the ledgers, with which its counts are compared when the run ends.
type RunReport struct {
	// Run is the UID of the EvaluationRun.
	Run    string `json:"run"`
	Active int64  `json:"active"`
	// Opened counts the episodes that the server has begun, and Scored and Failed those that it has
	// graded, each once. Episodes that other servers graded are in neither.
	Opened int64 `json:"opened,omitempty"`
	Scored int64 `json:"scored"`
	Failed int64 `json:"failed"`
	// Errored counts attempts that ended with an error.
	Errored int64 `json:"errored"`
	// ScoreSum is in micro-points, over scored and failed episodes.
	ScoreSum int64 `json:"scoreSum"`
}

// Plus adds the report of another server.
func (r RunReport) Plus(o RunReport) RunReport {
	return RunReport{
		Run: o.Run, Active: r.Active + o.Active, Opened: r.Opened + o.Opened,
		Scored: r.Scored + o.Scored, Failed: r.Failed + o.Failed,
		Errored: r.Errored + o.Errored, ScoreSum: r.ScoreSum + o.ScoreSum,
	}
}

// Sessions counts a server's active sessions, and their maximum.
type Sessions struct {
	Active   int64 `json:"active"`
	Capacity int64 `json:"capacity"`
}

// Episodes counts the episodes that ended since the server started. ScoreSum is in micro-points,
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

// Scenario describes a scenario to the control plane.
type Scenario struct {
	ID         string `json:"id"`
	Category   string `json:"category"`
	Difficulty string `json:"difficulty"`
	Language   string `json:"language"`
	Split      string `json:"split"`
	// Modifiers are a generated case's, ordered. Servers of older releases don't report
	// them.
	Modifiers []string `json:"modifiers,omitempty"`
}
