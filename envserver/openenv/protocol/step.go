package protocol

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
)

// StepRequest is the body of POST /step without the reset options.
type StepRequest struct {
	Action  json.RawMessage
	Timeout time.Duration
}

// ParseStep reads the body of POST /step.
func ParseStep(body []byte) (StepRequest, []episode.ErrorItem) {
	r := OptionReader{Where: "body"}
	members, err := object.Read(body, object.Unique)
	if err != nil {
		r.Faultf("value_error", "body", nil, "the body can't be read: %v", err)
		return StepRequest{}, r.Items
	}
	action := members.Get("action")
	request := StepRequest{Action: json.RawMessage(action), Timeout: r.timeout(members.Get("timeout_s"))}
	r.Text("request_id", members.Get("request_id"))
	switch {
	case action == nil:
		r.Faultf("missing", "action", nil, "Field required")
	case action.Kind() != '{':
		r.Faultf("dict_type", "action", action, "action should be a JSON object")
	}
	return request, r.Items
}

// timeout reads a number of seconds above 0, and caps it at a day.
func (r *OptionReader) timeout(value jsontext.Value) time.Duration {
	if !IsGiven(value) {
		return 0
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(value), `"`), 64)
	if err != nil || !(seconds > 0) || math.IsInf(seconds, 0) {
		r.Faultf("greater_than", "timeout_s", value, "timeout_s should be a number greater than 0")
		return 0
	}
	return time.Duration(min(seconds, 24*60*60) * float64(time.Second))
}
