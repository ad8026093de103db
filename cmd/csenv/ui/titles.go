package ui

import (
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/index"
)

// titleOf is what a scenario is about with a seed's values, "" if that is unknown.
func (s *site) titleOf(scenario string, seed int64) string {
	return figures.TitleOf(s.catalog, scenario, seed)
}

// numbered is an episode with its number and its trial counted from 1, as people do.
func numbered(e index.Episode) index.Episode {
	e.Index++
	e.Trial++
	return e
}
