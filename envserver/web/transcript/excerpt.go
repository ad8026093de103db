package transcript

import (
	"maps"
	"net/url"
	"strconv"
)

const (
	// ExcerptSteps is the number of steps that a page shows at once, and lastSteps that of the last
	// ones, which it always shows.
	ExcerptSteps = 200
	lastSteps    = 10
)

// Excerpt is what a page shows of a transcript: some steps, and the last ones.
type Excerpt struct {
	Transcript
	// Path and Query are those of the page. Raw is the path of the record, "" if it isn't served.
	Path  string
	Query url.Values
	Raw   string
	// Prefix begins the ids of the steps, so that a page can show several transcripts.
	Prefix string
	// From and To are the first and the last step of Shown.
	From, To int
	Shown    []Step
	// Last are the steps at the end that Shown doesn't have.
	Last []Step
}

// Excerpt returns ExcerptSteps steps from a step on. A step that doesn't exist is replaced by the
// nearest.
func (t Transcript) Excerpt(from int) Excerpt {
	end := len(t.Steps) - 1
	e := Excerpt{Transcript: t, From: min(max(from, 0), end)}
	e.To = min(max(e.From, 1)+ExcerptSteps-1, end)
	if end-e.To <= lastSteps {
		e.To = end
	}
	e.Shown = t.Steps[e.From : e.To+1]
	e.Last = t.Steps[max(e.To+1, len(t.Steps)-lastSteps):]
	return e
}

// Final is the number of the last step.
func (e Excerpt) Final() int { return len(e.Steps) - 1 }

// Range are the steps from one to another and the address of a page that shows them.
type Range struct {
	From, To int
	URL      string
}

// Before are the steps before those that are shown, nil if there are none.
func (e Excerpt) Before() *Range {
	if e.From <= 1 {
		return nil
	}
	return e.rangeFrom(max(e.From-ExcerptSteps, 1))
}

// After are the steps after those that are shown, nil if there are none.
func (e Excerpt) After() *Range {
	if e.To >= e.Final() {
		return nil
	}
	return e.rangeFrom(e.To + 1)
}

func (e Excerpt) rangeFrom(from int) *Range {
	shown := e.Excerpt(from)
	query := url.Values{}
	maps.Copy(query, e.Query)
	query.Del("from")
	if from > 1 {
		query.Set("from", strconv.Itoa(from))
	}
	r := &Range{From: shown.From, To: shown.To, URL: e.Path}
	if encoded := query.Encode(); encoded != "" {
		r.URL += "?" + encoded
	}
	return r
}

// MaxSteps is the number of steps after which the environment ends the episode, 0 if it isn't
// known.
func (t Transcript) MaxSteps() int {
	for _, item := range t.Steps[0].Items {
		if item.Standing != nil {
			return item.Standing.MaxSteps
		}
	}
	return 0
}

// Answered reports whether the items of a step show its message to the customer.
func (s Step) Answered() bool {
	for _, item := range s.Items {
		if item.Call != nil || item.Message.IsReply() {
			return true
		}
	}
	return false
}

// Called reports whether the items of a step show its action and arguments: a call without a
// message to the customer.
func (s Step) Called() bool {
	for _, item := range s.Items {
		if item.Call != nil && item.Call.Sent() == "" {
			return true
		}
	}
	return false
}
