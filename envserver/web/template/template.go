// Package template has the templates of pages and prompts: a fork of html/template and
// text/template that can't call methods. The standard packages call them by name, so the linker
// keeps every method of a program that uses them; docs/decisions/templates.md says more. Only this
// package imports the fork.
package template

import (
	html "github.com/DataDog/datadog-agent/pkg/template/html"
	text "github.com/DataDog/datadog-agent/pkg/template/text"
)

// HTML is text that is HTML already.
type HTML = html.HTML

// FuncMap are functions of templates by name.
type FuncMap = html.FuncMap

// Template is a template that escapes texts by their place in HTML.
type Template = html.Template

// Text is a template that escapes nothing.
type Text = text.Template

// New makes a template of HTML.
func New(name string) *Template { return html.New(name) }

// NewText makes a template of a text.
func NewText(name string) *Text { return text.New(name) }

// EscapeHTML escapes a text for HTML.
func EscapeHTML(s string) string { return html.HTMLEscapeString(s) }
