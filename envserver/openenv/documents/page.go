package documents

import (
	_ "embed"
)

//go:embed page.html
var pageSource string

// operation is a route of the page.
type operation struct {
	Method, Path, Summary string
}
