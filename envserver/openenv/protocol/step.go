package protocol

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// StepRequest is the body of POST /step without the reset options.
type StepRequest struct {
	Action  json.RawMessage
	Timeout time.Duration
}

// ParseStep reads the body of POST /step.
func ParseStep(body []byte) (StepRequest, []episode.ErrorItem) {
	var d struct {
		Action    jsontext.Value `json:"action"`
		TimeoutS  jsontext.Value `json:"timeout_s"`
		RequestID jsontext.Value `json:"request_id"`
	}
	r := OptionReader{Where: "body"}
	if err := jsonv2.Unmarshal(body, &d); err != nil {
		r.Faultf("value_error", "body", nil, "the body can't be read: %v", err)
		return StepRequest{}, r.Items
	}
	request := StepRequest{Action: json.RawMessage(d.Action), Timeout: r.timeout(d.TimeoutS)}
	r.Text("request_id", d.RequestID)
	switch {
	case d.Action == nil:
		r.Faultf("missing", "action", nil, "Field required")
	case d.Action.Kind() != '{':
		r.Faultf("dict_type", "action", d.Action, "action should be a JSON object")
	}
	return request, r.Items
}

// timeout reads a number of seconds above 0, and caps it at a day.
func (r *OptionReader) timeout(value jsontext.Value) time.Duration {
	if !Given(value) {
		return 0
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(value), `"`), 64)
	if err != nil || !(seconds > 0) || math.IsInf(seconds, 0) {
		r.Faultf("greater_than", "timeout_s", value, "timeout_s should be a number greater than 0")
		return 0
	}
	return time.Duration(min(seconds, 24*60*60) * float64(time.Second))
}
