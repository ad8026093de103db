package protocol

import (
	"bytes"
	"errors"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
)

// The error codes of the protocol.
const (
	CodeInvalidJSON = "INVALID_JSON"
	CodeUnknownType = "UNKNOWN_TYPE"
	CodeValidation  = "VALIDATION_ERROR"
	CodeExecution   = "EXECUTION_ERROR"
	CodeCapacity    = "CAPACITY_REACHED"
	CodeFactory     = "FACTORY_ERROR"
	CodeSession     = "SESSION_ERROR"
	// CodeEnded refuses an episode of a run that has ended, CodeNoPlan one of a run whose plan the
	// server doesn't know.
	CodeEnded  = "EPISODE_ENDED"
	CodeNoPlan = "PLAN_UNKNOWN"
)

// Error is the data of an error message.
type Error struct {
	Message        string              `json:"message"`
	Code           string              `json:"code"`
	Errors         []episode.ErrorItem `json:"errors,omitempty"`
	ActiveSessions *int                `json:"active_sessions,omitempty"`
	MaxSessions    *int                `json:"max_sessions,omitempty"`
	FactoryName    string              `json:"factory_name,omitempty"`
	// Cause is the class of a failure to judge, after which the action may be sent again.
	Cause string `json:"cause,omitempty"`
}

// Error is the message with its code.
func (e Error) Error() string { return e.Message + " (" + e.Code + ")" }

// maxErrorText bounds the message of an error, in bytes.
const maxErrorText = 2048

func validationError(items []episode.ErrorItem) *Error {
	return &Error{Code: CodeValidation, Message: "Invalid message: " + JoinMessages(items), Errors: items}
}

// PlayError converts an environment's error to an error message.
func PlayError(err error) Error {
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		return *validationError(invalid.Items)
	}
	if unjudged, ok := errors.AsType[*episode.JudgeError](err); ok {
		return Error{Code: CodeExecution, Message: unjudged.Error(), Cause: unjudged.Cause}
	}
	if undrawn, ok := errors.AsType[*episode.InstanceError](err); ok {
		return Error{Code: CodeExecution, Message: undrawn.Error()}
	}
	if wire, ok := errors.AsType[Error](err); ok {
		return wire
	}
	return Error{Code: CodeExecution, Message: err.Error()}
}

// WriteError appends an error message.
func WriteError(out *bytes.Buffer, e Error) {
	e.Message = ClipMessage(e.Message)
	out.WriteString(`{"type":"error","data":`)
	// Only Errors can fail to encode: an environment's error item may hold input that isn't JSON.
	if EncodeJSON(out, e) != nil {
		e.Errors = nil
		_ = EncodeJSON(out, e)
	}
	out.WriteByte('}')
}

// JoinMessages joins the messages of error items.
func JoinMessages(items []episode.ErrorItem) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.Msg
	}
	return strings.Join(texts, "; ")
}

// ClipMessage shortens a message to maxErrorText.
func ClipMessage(message string) string {
	if len(message) <= maxErrorText {
		return message
	}
	return strings.ToValidUTF8(message[:maxErrorText], "") + "…"
}
