package source

import (
	"context"
	"path"
	"strings"

	"github.com/csenv/csenv/controllers/evaluation"
)

// ReadBaseline reads a stored run to compare with: its name in the store of a location, or
// STORE/NAME. The error says what is stored instead.
func ReadBaseline(ctx context.Context, location, name string) (evaluation.Baseline, error) {
	if path.IsAbs(name) || strings.HasPrefix(name, ".") || strings.Contains(name, "://") {
		location, name = strings.TrimSuffix(path.Dir(name), "/"), path.Base(name)
	}
	s, err := OpenStored(ctx, location)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	defer s.Close()
	return s.baseline(ctx, name)
}

// baseline reads a run of the store, without a comparison of its own.
func (s *Stored) baseline(ctx context.Context, name string) (evaluation.Baseline, error) {
	folders, err := s.Runs(ctx)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	folder, err := s.folder(ctx, folders, name)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	loaded, err := s.read(ctx, folder)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	return evaluation.Baseline{Run: loaded.EvaluationRun, Table: loaded.table}, nil
}
