package page

import (
	"net/url"
	"time"

	"github.com/csenv/csenv/envserver/web/chart"
	"github.com/csenv/csenv/envserver/web/template"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// methods are the methods that templates use, as functions. Templates can't call methods: if they
// could, the linker would keep every method of every type in the program, which is a third of it.
var methods = template.FuncMap{
	"svg":        func(v interface{ SVG() template.HTML }) template.HTML { return v.SVG() },
	"scale":      chart.Interval.Scale,
	"symbol":     func(v interface{ Symbol() template.HTML }) template.HTML { return v.Symbol() },
	"bar":        func(v interface{ Bar() chart.Bar }) chart.Bar { return v.Bar() },
	"chart":      func(v interface{ Chart() chart.Interval }) chart.Interval { return v.Chart() },
	"difference": func(v interface{ Difference() chart.Interval }) chart.Interval { return v.Difference() },
	"interval":   func(v interface{ Interval() chart.Interval }) chart.Interval { return v.Interval() },

	"counted":   func(v interface{ Counted() int64 }) int64 { return v.Counted() },
	"dimension": func(v interface{ Dimension() string }) string { return v.Dimension() },
	"place":     func(v interface{ Place() string }) string { return v.Place() },
	"playing":   func(v interface{ Playing() int64 }) int64 { return v.Playing() },
	"points":    func(v interface{ PointsText() string }) string { return v.PointsText() },
	"runs":      func(v interface{ RunsText() string }) string { return v.RunsText() },
	"task":      func(v interface{ Task() string }) string { return v.Task() },
	"trouble":   func(v interface{ TroubleText() string }) string { return v.TroubleText() },

	"after":     transcript.Excerpt.After,
	"before":    transcript.Excerpt.Before,
	"final":     transcript.Excerpt.Final,
	"marked":    transcript.Excerpt.MarkAddress,
	"pieces":    transcript.SplitAtMarks,
	"answered":  transcript.Step.Answered,
	"called":    transcript.Step.Called,
	"summary":   transcript.Action.Summary,
	"share":     (*transcript.Points).Share,
	"arguments": (*transcript.Call).Arguments,
	"failed":    (*transcript.Call).Failed,
	"returned":  (*transcript.Call).Returned,
	"sent":      (*transcript.Call).Sent,
	"stated":    (*transcript.Call).Stated,

	"answer": func(v interface{ Answer() string }) string { return v.Answer() },
	"given":  func(v interface{ Given() string }) string { return v.Given() },
	"input":  func(v interface{ Input() string }) string { return v.Input() },
	"note":   (*transcript.Message).Note,
	"title":  func(v interface{ Title() string }) string { return v.Title() },

	"format": time.Time.Format,
	"get":    url.Values.Get,
}
