// Package crd embeds the CustomResourceDefinitions, for programs that validate manifests without a
// cluster.
package crd

import "embed"

// Bases holds one definition per file.
//
//go:embed bases/*.yaml
var Bases embed.FS
