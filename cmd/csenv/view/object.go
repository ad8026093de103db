package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Object is a JSON object: names and values in turn, in their order. As in struct tags, a name with
// ",omitempty" is left out if its value is empty.
type Object []any

// MarshalJSON encodes the object without escaping HTML.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	separator := "{"
	for i := 0; i < len(o); i += 2 {
		name, omit := strings.CutSuffix(o[i].(string), ",omitempty")
		if omit && isEmpty(reflect.ValueOf(o[i+1])) {
			continue
		}
		fmt.Fprintf(&b, "%s%q:", separator, name)
		if err := encoder.Encode(o[i+1]); err != nil {
			return nil, err
		}
		separator = ","
	}
	b.WriteString("}")
	return b.Bytes(), nil
}

func isEmpty(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}
