package score

// Report is what an environment pod says of itself on /stats, and what the controllers read: the wire between them.
type Report struct {
	Environment    string   `json:"environment"`
	ScenarioDigest string   `json:"scenarioDigest"`
	GraderVersion  string   `json:"graderVersion"`
	Judge          string   `json:"judge"`
	Draining       bool     `json:"draining"`
	Sessions       Sessions `json:"sessions"`
	Episodes       Episodes `json:"episodes"`
	Tasks          []Task   `json:"tasks"`
}

// Sessions are a pod's sessions now and at most.
type Sessions struct {
	Active   int64 `json:"active"`
	Capacity int64 `json:"capacity"`
}

// Episodes are the episodes that a pod has ended since it started. ScoreSum is in micro-points, over scored and failed ones.
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
