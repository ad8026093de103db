package score

import (
	_ "text/template" // Tests may.

	_ "k8s.io/api/core/v1" // want `the data plane knows nothing of Kubernetes`
)
