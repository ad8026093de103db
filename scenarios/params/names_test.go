package params

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/expr"
)

func TestPeople(t *testing.T) {
	l := NewNameList([]string{"Zoë"}, []string{"Strauß-Łuk"})
	want := map[string]string{"given": "Zoë", "family": "Strauß-Łuk", "full": "Zoë Strauß-Łuk",
		"email": "zoe.straussluk@mail.example"}
	if diff := cmp.Diff(want, l.Person(&expr.Stream{})); diff != "" {
		t.Errorf("person (-want +got):\n%s", diff)
	}
}
