package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An objection is beside the shards of its run, is replaced by the next one, and is removed by one
// without a text. A file that isn't one is an error that names the episode.
func TestObjections(t *testing.T) {
	folder := t.TempDir()
	store, err := Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	write := func(episode int64, because string) error {
		return store.WriteObjection(t.Context(), "run-1", Objection{episode, because, time.Unix(0, 0).UTC()})
	}
	for _, text := range []string{"first", "the reply does say when: \"by Friday\"\n<b>"} {
		if err := write(7, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(8, strings.Repeat("\x01", MaxObjection)); err != nil {
		t.Fatal(err)
	}
	if err := write(9, strings.Repeat("x", MaxObjection+1)); err == nil || !strings.Contains(err.Error(), "at most 4096") {
		t.Errorf("a long objection: %v", err)
	}
	if all, err := store.Objections(t.Context(), "run-1"); err != nil || len(all[8].Because) != MaxObjection {
		t.Errorf("%d bytes, %v", len(all[8].Because), err)
	}
	for range 2 { // what is gone can be removed
		if err := write(8, ""); err != nil {
			t.Fatal(err)
		}
	}
	found, err := store.Objections(t.Context(), "run-1")
	want := map[int64]Objection{7: {7, "the reply does say when: \"by Friday\"\n<b>", time.Unix(0, 0).UTC()}}
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for episode, want := range map[int64]Objection{7: want[7], 8: {}} {
		if got, err := store.Objection(t.Context(), "run-1", episode); err != nil || got != want {
			t.Errorf("episode %d: %+v, %v", episode, got, err)
		}
	}
	if shards, err := store.listShards(t.Context(), "run-1"); err != nil || len(shards) != 0 {
		t.Errorf("shards %v, %v", shards, err)
	}
	if err := os.WriteFile(filepath.Join(folder, "run-1", "objections", "3.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Objections(t.Context(), "run-1"); err == nil || !strings.Contains(err.Error(), "episode 3") {
		t.Errorf("a broken file: %v", err)
	}
}
