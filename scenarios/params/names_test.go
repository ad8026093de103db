package params

import (
	"testing"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/google/go-cmp/cmp"
)

func TestPeople(t *testing.T) {
	l := NewNameList([]string{"Zoë"}, []string{"Strauß-Łuk"})
	want := map[string]string{"given": "Zoë", "family": "Strauß-Łuk", "full": "Zoë Strauß-Łuk",
		"email": "zoe.straussluk@mail.example"}
	if diff := cmp.Diff(want, l.Person(&expr.Stream{})); diff != "" {
		t.Errorf("person (-want +got):\n%s", diff)
	}
}
