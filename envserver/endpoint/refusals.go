package endpoint

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// refusals are the features that an endpoint refuses, as far as its complaints are believed. What
// an endpoint has refused stays left out of all requests, so one stray complaint isn't enough: it
// is repeated with the feature. Once a feature has worked, a complaint is about that request, until
// a second request is refused as often as the first. All requests of a process share it.
type refusals struct {
	mu sync.Mutex
	// lacks are the features that are left out, worked the features of requests that were answered,
	// and needed the features that the endpoint misses when they are left out.
	lacks, worked, needed Feature
	// doubts counts the complaints since the feature last worked, by the digest of the messages.
	doubts map[Feature]map[[sha256.Size]byte]int
	// sent counts the requests, and left those without each feature.
	sent int64
	left map[Feature]*leftOut
}

// leftOut is since which request a feature is left out, from 1, and of how many.
type leftOut struct{ since, requests int64 }

const (
	// confirmations is the number of complaints about a feature while nothing is known about it.
	confirmations = 2
	// stubborn is that about a feature which has worked, from each of two requests: stray
	// complaints of one server among several aren't that many in a row.
	stubborn = 4
)

// countRequest counts a request.
func (r *refusals) countRequest(lacks Feature) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	for f, left := range r.left {
		if lacks&f != 0 {
			left.requests++
		}
	}
}

// noteAnswered notes the features of a request that was answered.
func (r *refusals) noteAnswered(used Feature) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worked |= used
	for f := range r.doubts {
		if used&f != 0 {
			delete(r.doubts, f)
		}
	}
}

// wasAnswered reports whether a request with the features was answered before.
func (r *refusals) wasAnswered(used Feature) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return used&^r.worked == 0
}

// countComplaint counts a complaint about a feature of a request. It reports whether the feature is
// left out from now on, and whether it has worked before.
func (r *refusals) countComplaint(f Feature, messages []ChatMessage) (believed, worked bool) {
	data, err := json.Marshal(messages)
	request := sha256.Sum256(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lacks&f != 0 { // since the request was sent
		return true, false
	}
	if r.needed&f != 0 || err != nil {
		return false, true
	}
	if r.doubts == nil {
		r.doubts, r.left = map[Feature]map[[sha256.Size]byte]int{}, map[Feature]*leftOut{}
	}
	if r.doubts[f] == nil {
		r.doubts[f] = map[[sha256.Size]byte]int{}
	}
	r.doubts[f][request]++
	all, often := 0, 0
	for _, n := range r.doubts[f] {
		if all += n; n >= stubborn {
			often++
		}
	}
	worked = r.worked&f != 0
	if worked && often >= 2 || !worked && all >= confirmations {
		r.lacks |= f
		r.left[f] = &leftOut{since: r.sent + 1}
		delete(r.doubts, f)
		return true, worked
	}
	return false, worked
}

// needFeature takes features back that the endpoint misses, for good. It reports whether they were
// left out.
func (r *refusals) needFeature(f Feature) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.lacks&f != 0
	r.lacks &^= f
	r.needed |= f
	return was
}

// LeftOut says what requests leave out, since which and of how many, most important first; "" for
// nothing.
func (c *Completions) LeftOut() string {
	r := &c.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []string
	for _, n := range slices.Backward(features[:]) {
		left := r.left[n.feature]
		switch {
		case left == nil || left.requests == 0 && r.lacks&n.feature == 0:
		case r.worked&n.feature != 0:
			parts = append(parts, fmt.Sprintf("%s (since request %d, of %d)", n.name, left.since, left.requests))
		default:
			parts = append(parts, fmt.Sprintf("%s (of %d requests)", n.name, left.requests))
		}
	}
	return strings.Join(parts, ", ")
}

// Lacks are the features that the endpoint has refused so far.
func (c *Completions) Lacks() Feature {
	c.refusals.mu.Lock()
	defer c.refusals.mu.Unlock()
	return c.refusals.lacks
}
