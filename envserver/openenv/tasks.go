package openenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// taskAPI lists what can be played, for trainers that draw their data sets from it (ORS and
// OpenReward have the same routes). The environment itself lists the scenarios of all its tasks,
// and each task is an environment of its own scenarios beside it, so that reset(task=…, split=…,
// index=…) plays the task that /<task>/task describes, and reset(split=…, index=…) the one of
// /<environment>/task.
type taskAPI struct {
	names []string
	// byName has the lists by lower-case names, as names are compared.
	byName map[string][]taskSpec
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

func newTaskAPI(kind episode.Kind) taskAPI {
	api := taskAPI{byName: map[string][]taskSpec{}}
	for _, task := range kind.Tasks() {
		api.add(kind.Name(), task)
		api.add(task.Name, task)
	}
	return api
}

func (a *taskAPI) add(name string, task score.Task) {
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

// splitNames are the names under which trainers look for the splits of the catalogue.
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

// splits lists the splits of a list of tasks: train, validation and test first.
func splits(specs []taskSpec) []string {
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

// split lists the tasks of one split with their indexes in it, nil for an unknown split.
func (a *taskAPI) split(environment, split string) []taskSpec {
	var found []taskSpec
	for _, spec := range a.byName[strings.ToLower(environment)] {
		if spec.Split == splitName(split) {
			spec.Index = len(found)
			found = append(found, spec)
		}
	}
	return found
}

// resolve finds the scenario that split and index ask for. The seed draws one where there is no
// index; a scenario or no split leaves the options as they are.
func (a *taskAPI) resolve(kind episode.Kind, o *resetOptions, r *optionReader) {
	if o.split == "" || o.Scenario != "" {
		return
	}
	environment := o.Task
	if environment == "" {
		environment = kind.Name()
	}
	specs := a.split(environment, o.split)
	if len(specs) == 0 {
		value, _ := jsontext.AppendQuote(nil, o.split) // an option is valid UTF-8
		r.faultf("value_error", "split", value, "unknown split %q: there is %s", o.split,
			strings.Join(splits(a.byName[strings.ToLower(environment)]), ", "))
		return
	}
	index := int64(episode.Draw(o.Seed, len(specs)))
	if o.index != nil {
		index = *o.index
	}
	if index >= int64(len(specs)) {
		r.faultf("value_error", "index", jsontext.Value(strconv.FormatInt(index, 10)),
			"split %q has %d tasks: index should be less", o.split, len(specs))
		return
	}
	o.Task, o.Scenario = specs[index].Task, specs[index].Scenario
}

// taskMethods are the routes below an environment's name.
var taskMethods = map[string]struct {
	method string
	answer func(specs []taskSpec, environment string, q taskQuery) (any, *httpFault)
}{
	"splits": {http.MethodGet, nil},
	"tasks": {http.MethodPost, func(specs []taskSpec, environment string, _ taskQuery) (any, *httpFault) {
		return object{"tasks": specs, "env_name": environment}, nil
	}},
	"num_tasks": {http.MethodPost, func(specs []taskSpec, _ string, _ taskQuery) (any, *httpFault) {
		return object{"num_tasks": len(specs)}, nil
	}},
	"task":       {http.MethodPost, oneTask},
	"task_range": {http.MethodPost, someTasks},
}

// httpFault is a refusal with a status and a detail.
type httpFault struct {
	status int
	detail string
}

func oneTask(specs []taskSpec, _ string, q taskQuery) (any, *httpFault) {
	if *q.index < 0 || *q.index >= int64(len(specs)) {
		return nil, &httpFault{http.StatusBadRequest, "Invalid task index"}
	}
	return object{"task": specs[*q.index]}, nil
}

func someTasks(specs []taskSpec, _ string, q taskQuery) (any, *httpFault) {
	within := func(bound *int64, missing int64) int64 {
		if bound == nil {
			return missing
		}
		return max(0, min(*bound, int64(len(specs))))
	}
	start, stop := within(q.start, 0), within(q.stop, int64(len(specs)))
	return object{"tasks": specs[start:max(start, stop)]}, nil
}

// taskRoute tells whether a path is one of the Task API, and its parts.
func (a *taskAPI) taskRoute(path string) (environment, method string, ok bool) {
	environment, method, ok = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	_, known := taskMethods[method]
	return environment, method, ok && known
}

func (s *Server) serveEnvironments(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.taskAPI.names)
}

// serveTasks answers a route below an environment's name.
func (s *Server) serveTasks(w http.ResponseWriter, r *http.Request) {
	environment, name, _ := s.taskAPI.taskRoute(r.URL.Path)
	route := taskMethods[name]
	specs, ok := s.taskAPI.byName[strings.ToLower(environment)]
	for _, canonical := range s.taskAPI.names {
		if strings.EqualFold(canonical, environment) {
			environment = canonical
		}
	}
	switch {
	case r.Method != route.method:
		w.Header().Set("Allow", route.method)
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	case !ok:
		writeDetail(w, http.StatusNotFound, fmt.Sprintf("unknown environment '%.64s'", environment))
		return
	case name == "splits":
		writeJSON(w, http.StatusOK, describeSplits(specs))
		return
	}
	query, ok := readTaskQuery(w, r, name)
	if !ok {
		return
	}
	specs = s.taskAPI.split(environment, query.split)
	if len(specs) == 0 {
		writeDetail(w, http.StatusBadRequest, fmt.Sprintf("unknown split '%.64s'", query.split))
		return
	}
	answer, fault := route.answer(specs, environment, query)
	if fault != nil {
		writeDetail(w, fault.status, fault.detail)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func describeSplits(specs []taskSpec) []object {
	names := splits(specs)
	described := make([]object, len(names))
	for i, name := range names {
		described[i] = object{"name": name, "type": splitType(name)}
	}
	return described
}

// taskQuery is the body of a request of the Task API.
type taskQuery struct {
	split              string
	index, start, stop *int64
}

// taskMembers are the members that each request has, beside split, and whether they are required.
var taskMembers = map[string]map[string]bool{"task": {"index": true}, "task_range": {"start": false, "stop": false}}

// readTaskQuery reads the body, or answers what is wrong with it.
func readTaskQuery(w http.ResponseWriter, r *http.Request, name string) (taskQuery, bool) {
	body, ok := readObject(w, r, requiredBody)
	if !ok {
		return taskQuery{}, false
	}
	query, items := parseTaskQuery(body, name)
	if len(items) > 0 {
		writeItems(w, items)
	}
	return query, len(items) == 0
}

func parseTaskQuery(body json.RawMessage, name string) (q taskQuery, items []episode.ErrorItem) {
	var given map[string]jsontext.Value
	r := optionReader{where: "body"}
	if err := jsonv2.Unmarshal(body, &given); err != nil {
		r.faultf("value_error", "body", nil, "the body can't be read: %v", err)
		return q, r.items
	}
	if given["split"] == nil {
		r.faultf("missing", "split", nil, "Field required")
	} else if q.split = r.text("split", given["split"]); q.split == "" && len(r.items) == 0 {
		r.faultf("string_type", "split", given["split"], "split should be the name of a split")
	}
	delete(given, "split")
	bounds := map[string]**int64{"index": &q.index, "start": &q.start, "stop": &q.stop}
	for _, member := range []string{"index", "start", "stop"} {
		required, known := taskMembers[name][member]
		if known {
			*bounds[member] = r.bound(member, given[member], required)
			delete(given, member)
		}
	}
	return q, append(r.items, extraItems(messageKind(name), given)...)
}

// bound reads an integer of either sign, nil where there is none.
func (r *optionReader) bound(name string, value jsontext.Value, required bool) *int64 {
	if value == nil && required {
		r.faultf("missing", name, nil, "Field required")
		return nil
	}
	if !required && (value == nil || value.Kind() == 'n') {
		return nil
	}
	n, ok := readInteger(value)
	if !ok || !n.IsInt64() {
		r.faultf("int_parsing", name, value, "%s should be an integer", name)
		return nil
	}
	bound := n.Int64()
	return &bound
}
