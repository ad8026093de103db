module github.com/csenv/csenv

go 1.26.0

require k8s.io/api v0.0.0

replace k8s.io/api => ./k8s.io/api
