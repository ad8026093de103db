// Package memory bounds what the requests of all clients occupy together: messages and bodies take
// parts of a budget as they arrive.
package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// Small is the size, in bytes, up to which a message or a body isn't budgeted. Nearly every
	// action fits.
	Small = 16 << 10
	// Medium is the size, in bytes, up to which a message or a body takes parts of the medium
	// budget. Larger messages take a part of the large budget in addition.
	Medium = 1 << 20
	// Large bounds an inbound message, in bytes, as in the official server.
	Large = 16 << 20
)

const (
	// mediumParts of mediumPart bytes hold eight bodies of 1 MiB. What is decoded occupies
	// up to four times its size, and a processor for milliseconds.
	mediumParts, mediumPart = 128, 64 << 10
	largeParts              = 2
	// mediumPatience and largePatience are how long a body or a message may take while others wait.
	mediumPatience = 100 * time.Millisecond
	largePatience  = 2 * time.Second
)

// NewMedium makes the budget of messages and bodies above Small.
func NewMedium() *fairness.Budget { return fairness.NewMemory(mediumParts, mediumPart, mediumPatience) }

// NewLarge makes the budget of messages above Medium.
func NewLarge() *fairness.Budget { return fairness.NewMemory(largeParts, Large, largePatience) }

const (
	// bodyTime bounds the reading of a body, and partTime the waiting for a part of the budget.
	bodyTime = 20 * time.Second
	partTime = 10 * time.Second
)

var errTooLarge = errors.New("too large")

// LimitBodies reads the body of each POST within the budget before next answers the request. A
// request whose body can't be read is answered here. Bodies of other requests are not read.
func LimitBodies(budget *fairness.Budget, clientOf func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Method != http.MethodPost && r.ContentLength != 0 {
			next.ServeHTTP(w, WithoutBody(w, r))
			return
		}
		if r.Method == http.MethodPost {
			_ = control.SetReadDeadline(time.Now().Add(bodyTime))
			interrupt := func() { _ = control.SetReadDeadline(time.Now()) }
			body, release, err := readBody(budget, clientOf, interrupt, r)
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

// WithoutBody returns the request without its body, if it has one, which is not read: its
// connection is closed after the answer.
func WithoutBody(w http.ResponseWriter, r *http.Request) *http.Request {
	if r.ContentLength == 0 {
		return r
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // net/http would wait for the rest
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = http.NoBody, 0
	return r
}

// readBody reads a body. The caller releases the part of the budget that it takes, also after an
// error.
func readBody(budget *fairness.Budget, clientOf func(*http.Request) string, interrupt func(),
	r *http.Request) (body []byte, release func(), err error) {
	release = func() {}
	if r.ContentLength > protocol.MaxBody {
		return nil, release, errTooLarge
	}
	var read bytes.Buffer
	if n, err := read.ReadFrom(io.LimitReader(r.Body, Small)); err != nil || n < Small {
		return read.Bytes(), release, err
	}
	release, err = budget.Read(r.Context(), clientOf(r), &read, r.Body, protocol.MaxBody-Small+1, partTime, interrupt)
	if err == nil && read.Len() > protocol.MaxBody {
		err = errTooLarge
	}
	return read.Bytes(), release, err
}

// writeBodyError answers a request whose body was not read.
func writeBodyError(w http.ResponseWriter, err error) {
	timeout, isNet := errors.AsType[net.Error](err)
	w.Header().Set("Connection", "close") // the rest of the body isn't read
	switch {
	case errors.Is(err, errTooLarge):
		protocol.WriteDetail(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the body is larger than %d bytes", protocol.MaxBody))
	case errors.Is(err, fairness.ErrInterrupted):
		protocol.WriteDetail(w, http.StatusRequestTimeout,
			"the body arrived too slowly while others waited: send it again, faster or in smaller parts")
	case errors.Is(err, fairness.ErrNoPart): // not 503, which says that the server is full
		w.Header().Set("Retry-After", "1")
		protocol.WriteDetail(w, http.StatusTooManyRequests, fmt.Sprintf(
			"too many bodies of more than %d bytes are being read: try again, with fewer at a time", Small))
	case isNet && timeout.Timeout():
		protocol.WriteDetail(w, http.StatusRequestTimeout,
			fmt.Sprintf("the body did not arrive within %v: send it again, faster", bodyTime))
	default:
		protocol.WriteDetail(w, http.StatusBadRequest, "the body can't be read: send it as its header says")
	}
}
