package expr

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/go-cmp/cmp"
)

func TestScalarsOfAMapHaveAFixedOrder(t *testing.T) {
	in := &Scope{Loc: Locales["en"]}
	m := map[ref.Val]ref.Val{}
	for _, s := range []string{"e", "d", "c", "b", "a"} {
		m[types.String(s)] = types.String(s)
	}
	for range 20 {
		got := in.Scalars(types.NewRefValMap(types.DefaultTypeAdapter, m), nil)
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); diff != "" {
			t.Fatalf("scalars (-want +got):\n%s", diff)
		}
	}
}
