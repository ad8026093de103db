package cli

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/csenv/csenv/scenarios"
)

// PackFlag adds --pack.
func PackFlag(f *pflag.FlagSet) *[]string {
	return f.StringArray("pack", nil, "`folder` of an additional pack of scenarios; may be repeated")
}

// LoadCatalog loads the built-in pack and some folders. A folder with the name of the built-in
// pack, as in a checkout of csenv, replaces it.
func LoadCatalog(folders []string) (*scenarios.Catalog, error) {
	public, err := scenarios.LoadPublic()
	if err != nil {
		return nil, err
	}
	base, packs := "", make([]string, 0, len(folders))
	for _, folder := range folders {
		if base == "" && scenarios.FolderName(folder) == public.Packs()[0].Name {
			base = folder
			continue
		}
		packs = append(packs, folder)
	}
	return scenarios.LoadFolders(base, packs...)
}

// ScenarioIDs returns the ids of the built-in scenarios.
func ScenarioIDs() []string {
	c, err := scenarios.LoadPublic()
	if err != nil {
		return nil
	}
	var ids []string
	for _, s := range c.Tickets() {
		ids = append(ids, s.ID)
	}
	for _, s := range c.Workflows() {
		ids = append(ids, s.ID)
	}
	return ids
}

// ListCategories returns the categories of tickets and the families of generated cases.
func ListCategories() []string {
	return append(scenarios.Categories, ofCases(func(s *scenarios.WorkflowScenario) []string {
		return []string{s.Category()}
	})...)
}

// ListModifiers returns the modifiers of the built-in generated cases.
func ListModifiers() []string {
	return ofCases(func(s *scenarios.WorkflowScenario) []string { return s.Modifiers })
}

func ofCases(values func(*scenarios.WorkflowScenario) []string) []string {
	c, err := scenarios.LoadPublic()
	if err != nil {
		return nil
	}
	var all []string
	for _, s := range c.Cases() {
		all = append(all, values(s)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
