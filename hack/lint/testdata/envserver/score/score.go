// Package score breaks walls.
package score

import (
	_ "text/template" // want `calls methods by name.*\(depguard\)`

	_ "github.com/csenv/csenv/api" // want `every part shares score` `the data plane knows nothing of Kubernetes`

	_ "k8s.io/api/core/v1" // want `the data plane knows nothing of Kubernetes`
)
