package observe

import (
	"reflect"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Only the root of controllers/run writes: nothing that the reader has is a client that could.
func TestTheReaderHasNoClientThatWrites(t *testing.T) {
	writers := []reflect.Type{reflect.TypeFor[client.Writer](), reflect.TypeFor[client.StatusClient](),
		reflect.TypeFor[client.SubResourceClientConstructor]()}
	for field := range reflect.TypeFor[Reader]().Fields() {
		for _, writer := range writers {
			if field.Type.Implements(writer) {
				t.Errorf("%s of the Reader is a %s", field.Name, writer)
			}
		}
	}
}
