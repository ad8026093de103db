package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// bodyTime bounds the reading of a body, and partTime the waiting for a part of the budget.
	bodyTime = 20 * time.Second
	partTime = 10 * time.Second
)

var (
	errTooLarge = errors.New("too large")
	errNoPart   = errors.New("no part of the budget is free")
)

// LimitBodies reads the body of each POST within the budget before next answers the request. A
// request whose body can't be read is answered here.
func LimitBodies(budget *Budget, clientOf func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Method == http.MethodPost {
			_ = control.SetReadDeadline(time.Now().Add(bodyTime))
			body, release, err := readBody(budget, clientOf, r)
			defer release()
			if err != nil {
				writeBodyError(w, err)
				return
			}
			r.Body = protocol.NewBody(body)
		}
		// An answer may take longer than the reading of its request.
		_ = control.SetReadDeadline(time.Time{})
		next.ServeHTTP(w, r)
	})
}

// readBody reads a body. The caller releases the part of the budget that it takes, also after an
// error.
func readBody(budget *Budget, clientOf func(*http.Request) string, r *http.Request) (body []byte, release func(),
	err error) {
	release = func() {}
	if r.ContentLength > protocol.MaxBody {
		return nil, release, errTooLarge
	}
	var read bytes.Buffer
	if n, err := read.ReadFrom(io.LimitReader(r.Body, Small)); err != nil || n < Small {
		return read.Bytes(), release, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), partTime)
	defer cancel()
	taken, err := budget.Take(ctx, clientOf(r))
	if err != nil {
		return nil, release, errNoPart
	}
	if r.ContentLength > 0 {
		read.Grow(int(r.ContentLength) - Small + bytes.MinRead)
	}
	n, err := read.ReadFrom(io.LimitReader(r.Body, protocol.MaxBody-Small+1))
	if err == nil && n > protocol.MaxBody-Small {
		err = errTooLarge
	}
	return read.Bytes(), taken, err
}

// writeBodyError answers a request whose body was not read.
func writeBodyError(w http.ResponseWriter, err error) {
	timeout, isNet := errors.AsType[net.Error](err)
	w.Header().Set("Connection", "close") // the rest of the body isn't read
	switch {
	case errors.Is(err, errTooLarge):
		protocol.WriteDetail(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the body is larger than %d bytes", protocol.MaxBody))
	case errors.Is(err, errNoPart):
		w.Header().Set("Retry-After", "1")
		protocol.WriteDetail(w, http.StatusServiceUnavailable, fmt.Sprintf(
			"too many bodies of more than %d bytes are being read: try again, with fewer at a time", Small))
	case isNet && timeout.Timeout():
		protocol.WriteDetail(w, http.StatusRequestTimeout,
			fmt.Sprintf("the body did not arrive within %v: send it again, faster", bodyTime))
	default:
		protocol.WriteDetail(w, http.StatusBadRequest, "the body can't be read: send it as its header says")
	}
}
