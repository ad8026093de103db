package documents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// Tasks lists the scenarios, from which trainers draw data sets (ORS and OpenReward have the same
// routes). The environment lists the scenarios of all tasks, and each task is an environment too:
// reset(task=…, split=…, index=…) plays the scenario of /<task>/task, and reset(split=…, index=…)
// the scenario of /<environment>/task.
type Tasks struct {
	// kind is the name of the environment itself.
	kind  string
	names []string
	// byName has the lists by lower-case names, as names are compared.
	byName map[string][]taskSpec
	rows   int
}

// taskSpec is one entry of a list: a scenario of a task. Ids and members hold nothing that the
// agent must find out.
type taskSpec struct {
	ID         string `json:"id"`
	Index      int    `json:"index"`
	Split      string `json:"split"`
	Task       string `json:"task"`
	Scenario   string `json:"scenario"`
	Difficulty string `json:"difficulty"`
	Language   string `json:"language"`
}

// reservedPaths can't be environments: their routes would collide.
var reservedPaths = []string{"web", "mcp", "docs", "redoc", "ws"}

// NewTasks lists the tasks of an environment.
func NewTasks(kind episode.Kind) *Tasks {
	api := &Tasks{kind: kind.Name(), byName: map[string][]taskSpec{}}
	for _, task := range kind.Tasks() {
		api.add(kind.Name(), task)
		api.add(task.Name, task)
	}
	api.rows = len(api.split(api.kind, rowSplit))
	return api
}

func (a *Tasks) add(name string, task score.Task) {
	lower := strings.ToLower(name)
	if slices.Contains(reservedPaths, lower) {
		return
	}
	if _, known := a.byName[lower]; !known {
		a.names = append(a.names, name)
	}
	for _, s := range task.Scenarios {
		a.byName[lower] = append(a.byName[lower], taskSpec{
			ID: task.Name + "/" + s.ID, Split: splitName(s.Split), Task: task.Name, Scenario: s.ID,
			Difficulty: s.Difficulty, Language: s.Language,
		})
	}
}

// splitNames maps the splits of the catalogue to the names that trainers use.
var splitNames = map[string]string{"public-train": "train", "public-dev": "validation", "public-test": "test"}

func splitName(split string) string {
	if name, ok := splitNames[strings.ToLower(split)]; ok {
		return name
	}
	return strings.ToLower(split)
}

// splitType is train, validation or test.
func splitType(name string) string {
	if name == "train" || name == "test" {
		return name
	}
	return "validation"
}

// listSplits lists the splits of tasks, with train, validation and test first.
func listSplits(specs []taskSpec) []string {
	var names []string
	for _, known := range []string{"train", "validation", "test", ""} {
		for _, spec := range specs {
			if (known == "" || spec.Split == known) && !slices.Contains(names, spec.Split) {
				names = append(names, spec.Split)
			}
		}
	}
	return names
}

// split lists the tasks of a split, nil for an unknown one.
func (a *Tasks) split(environment, split string) []taskSpec {
	var found []taskSpec
	for _, spec := range a.byName[strings.ToLower(environment)] {
		if spec.Split == splitName(split) {
			spec.Index = len(found)
			found = append(found, spec)
		}
	}
	return found
}

// Resolve finds the scenario that split and index request. Without an index the seed draws one;
// a scenario or no split leaves the options as they are.
func (a *Tasks) Resolve(o *protocol.ResetOptions, r *protocol.OptionReader) {
	if o.Scenario != "" {
		return
	}
	environment := cmp.Or(o.Task, a.kind)
	if o.Split == "" && !a.resolveRow(o, r, environment) {
		return
	}
	specs := a.split(environment, o.Split)
	if len(specs) == 0 {
		value, _ := jsontext.AppendQuote(nil, o.Split) // an option is valid UTF-8
		r.Faultf("value_error", "split", value, "%s",
			o.Advise(fmt.Sprintf("unknown split %q: choose one of %s", o.Split,
				strings.Join(listSplits(a.byName[strings.ToLower(environment)]), ", "))))
		return
	}
	index := int64(episode.DrawIndex(o.Seed, len(specs)))
	if o.Index != nil {
		index = *o.Index
	}
	if index >= int64(len(specs)) {
		r.Faultf("value_error", "index", jsontext.Value(strconv.FormatInt(index, 10)), "%s",
			o.Advise(fmt.Sprintf("split %q has %d tasks: index should be less", o.Split, len(specs))))
		return
	}
	o.Task, o.Scenario = specs[index].Task, specs[index].Scenario
}

// rowSplit and heldOut are the splits of AgileRL's resets: rows of the data set, and rows of an
// evaluation.
const rowSplit = "train"

var heldOut = []string{"validation", "test"}

// resolveRow makes a split and an index of AgileRL's row_index and evaluation. AgileRL knows the
// size of one split only, so the rows of an evaluation begin again after the last one. It reports
// false if neither option is given, or if there is no such row.
func (a *Tasks) resolveRow(o *protocol.ResetOptions, r *protocol.OptionReader, environment string) bool {
	if o.Row == nil && !o.Evaluation {
		return false
	}
	o.Split = rowSplit
	if o.Evaluation {
		for _, split := range slices.Backward(heldOut) {
			if len(a.split(environment, split)) > 0 {
				o.Split = split
			}
		}
		if o.Split == rowSplit {
			r.Faultf("value_error", "evaluation", nil, "%s",
				o.Advise("there is no split for evaluations: leave evaluation out"))
			return false
		}
	}
	size := int64(len(a.split(environment, o.Split)))
	switch {
	case o.Row == nil || size == 0:
		return true
	case o.Evaluation:
		o.Index = new(*o.Row % size)
	case *o.Row >= size:
		r.Faultf("value_error", "row_index", jsontext.Value(strconv.FormatInt(*o.Row, 10)), "%s",
			o.Advise(fmt.Sprintf("row_index should be less than %d, the dataset_size of the state", size)))
		return false
	default:
		o.Index = o.Row
	}
	return true
}

// Rows is the number of tasks that row_index counts.
func (a *Tasks) Rows() int { return a.rows }

// taskRoute is a route below an environment's name.
type taskRoute struct {
	// members maps the request's members other than split to whether they are required.
	members map[string]bool
	answer  func(specs []taskSpec, environment string, q taskQuery) (any, *httpFault)
}

// taskRoutes has all routes but splits, which has no body.
var taskRoutes = map[string]taskRoute{
	"tasks": {answer: func(specs []taskSpec, environment string, _ taskQuery) (any, *httpFault) {
		return jsonObject{"tasks": specs, "env_name": environment}, nil
	}},
	"num_tasks": {answer: func(specs []taskSpec, _ string, _ taskQuery) (any, *httpFault) {
		return jsonObject{"num_tasks": len(specs)}, nil
	}},
	"task":       {members: map[string]bool{"index": true}, answer: oneTask},
	"task_range": {members: map[string]bool{"start": false, "stop": false}, answer: taskRange},
}

// httpFault is a refusal with a status and a detail.
type httpFault struct {
	status int
	detail string
}

func oneTask(specs []taskSpec, environment string, q taskQuery) (any, *httpFault) {
	if *q.index < 0 || *q.index >= int64(len(specs)) {
		return nil, &httpFault{http.StatusBadRequest, "Invalid task index"}
	}
	return jsonObject{"task": specs[*q.index], "env_name": environment}, nil
}

// taskRange counts negative bounds from the end, as OpenReward's client documents.
func taskRange(specs []taskSpec, environment string, q taskQuery) (any, *httpFault) {
	within := func(bound *int64, missing int64) int64 {
		if bound == nil {
			return missing
		}
		if *bound < 0 {
			return max(0, *bound+int64(len(specs)))
		}
		return min(*bound, int64(len(specs)))
	}
	start, stop := within(q.start, 0), within(q.stop, int64(len(specs)))
	return jsonObject{"tasks": specs[start:max(start, stop)], "env_name": environment}, nil
}

// Routes returns the handlers of the task lists by path and method. Find says what a path without
// an environment means.
func (a *Tasks) Routes() map[string]map[string]http.HandlerFunc {
	splits := map[string]http.HandlerFunc{http.MethodGet: func(w http.ResponseWriter, r *http.Request) {
		if name, ok := a.Find(w, r); ok {
			protocol.WriteJSON(w, http.StatusOK, describeSplits(a.byName[strings.ToLower(name)]))
		}
	}}
	routes := map[string]map[string]http.HandlerFunc{
		"/list_environments": {http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			protocol.WriteJSON(w, http.StatusOK, a.names)
		}},
		"/splits": splits, "/{environment}/splits": splits,
	}
	for name, route := range taskRoutes {
		methods := map[string]http.HandlerFunc{
			http.MethodPost: func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, name, route) },
		}
		routes["/"+name], routes["/{environment}/"+name] = methods, methods
	}
	return routes
}

const (
	// deploymentHeader has the name that a user of OpenReward's client gave to the environment.
	deploymentHeader = "X-Deployment"
	// anyEnvironment is the name that TRL gives to the environment of a URL.
	anyEnvironment = "env"
)

// DeploymentName returns the name in the deployment's header without its namespace.
func DeploymentName(r *http.Request) string {
	name := r.Header.Get(deploymentHeader)
	return name[strings.LastIndex(name, "/")+1:]
}

// Named returns the canonical name of an environment. "" and TRL's placeholder mean the environment
// itself, with all tasks. It reports false for an unknown name.
func (a *Tasks) Named(name string) (canonical string, known bool) {
	if name == "" || strings.EqualFold(name, anyEnvironment) {
		return a.kind, true
	}
	at := slices.IndexFunc(a.names, func(n string) bool { return strings.EqualFold(n, name) })
	if at < 0 {
		return "", false
	}
	return a.names[at], true
}

// Find returns the environment that the path names, or else the deployment's header. It answers 404
// if there is none.
func (a *Tasks) Find(w http.ResponseWriter, r *http.Request) (name string, ok bool) {
	given := cmp.Or(r.PathValue("environment"), DeploymentName(r))
	if name, ok = a.Named(given); !ok {
		protocol.WriteDetail(w, http.StatusNotFound, a.Unknown(given))
	}
	return name, ok
}

// Unknown is the message about an unknown environment.
func (a *Tasks) Unknown(name string) string {
	return fmt.Sprintf("unknown environment '%.64s': choose one of %s", name, strings.Join(a.names, ", "))
}

// IsTask reports whether the name of an environment is a task's name.
func (a *Tasks) IsTask(name string) bool { return name != a.kind }

func (a *Tasks) serve(w http.ResponseWriter, r *http.Request, name string, route taskRoute) {
	environment, ok := a.Find(w, r)
	if !ok {
		return
	}
	body, ok := protocol.ReadObject(w, r, protocol.RequiredBody)
	if !ok {
		return
	}
	query, items := parseTaskQuery(body, name, route.members)
	if len(items) > 0 {
		protocol.WriteItems(w, items)
		return
	}
	specs := a.split(environment, query.split)
	if len(specs) == 0 {
		protocol.WriteDetail(w, http.StatusBadRequest, fmt.Sprintf("unknown split '%.64s'", query.split))
		return
	}
	answer, fault := route.answer(specs, environment, query)
	if fault != nil {
		protocol.WriteDetail(w, fault.status, fault.detail)
		return
	}
	protocol.WriteJSON(w, http.StatusOK, answer)
}

func describeSplits(specs []taskSpec) []jsonObject {
	names := listSplits(specs)
	described := make([]jsonObject, len(names))
	for i, name := range names {
		described[i] = jsonObject{"name": name, "type": splitType(name)}
	}
	return described
}

// taskQuery is the body of a request of the Task API.
type taskQuery struct {
	split              string
	index, start, stop *int64
}

func parseTaskQuery(body json.RawMessage, name string,
	members map[string]bool) (q taskQuery, items []episode.ErrorItem) {
	r := protocol.OptionReader{Where: "body"}
	given, err := object.Read(body, object.Unique)
	if err != nil {
		r.Faultf("value_error", "body", nil, "the body can't be read: %v", err)
		return q, r.Items
	}
	var split jsontext.Value
	known := map[string]*jsontext.Value{"split": &split}
	for member := range members {
		known[member] = new(jsontext.Value)
	}
	others := given.Take(known)
	if split == nil {
		r.Faultf("missing", "split", nil, "Field required")
	} else if q.split = r.Text("split", split); q.split == "" && len(r.Items) == 0 {
		r.Faultf("string_type", "split", split, "split should be the name of a split")
	}
	for _, bound := range []struct {
		member string
		to     **int64
	}{{"index", &q.index}, {"start", &q.start}, {"stop", &q.stop}} {
		if value := known[bound.member]; value != nil {
			*bound.to = r.Bound(bound.member, *value, members[bound.member])
		}
	}
	return q, append(r.Items, protocol.ExtraItems(protocol.MessageKind(name), others)...)
}
