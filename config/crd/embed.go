// Package crd holds the CustomResourceDefinitions, for programs that have to know them without a
// cluster: what is valid, and what the defaults are.
package crd

import "embed"

// Bases holds bases/*.yaml, a definition each.
//
//go:embed bases/*.yaml
var Bases embed.FS
