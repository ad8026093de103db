// Package object decodes JSON objects of clients, in linear time and bounded memory for any input.
package object

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxMembers bounds the members of a decoded object. Objects inside it may have more, because they
// are not decoded.
const MaxMembers = 64

// Large is the size, in bytes, above which texts are decoded in turns. Nearly every action is
// smaller.
const Large = 16 << 10

// processors admits large texts to half of the processors, so that short operations find another
// one free.
var processors = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// AcquireScanSlot waits until a text of the size may be scanned. The caller releases it before it
// decodes another text, or waits for anything else.
func AcquireScanSlot(size int) (release func()) {
	if size <= Large {
		return func() {}
	}
	processors <- struct{}{}
	return func() { <-processors }
}

// maxShown bounds a name in a message, in bytes.
const maxShown = 64

// Repeats is the treatment of repeated names.
type Repeats bool

const (
	// LastCounts takes the last of repeated names, as JSON Schema validators do.
	LastCounts Repeats = false
	// Unique refuses repeated names.
	Unique Repeats = true
)

// The faults of an object other than its syntax.
var (
	ErrNoObject = errors.New("the text should be a JSON object")
	ErrTooMany  = fmt.Errorf("a JSON object may have at most %d members here", MaxMembers)
	ErrRepeated = errors.New("a name is repeated in a JSON object")
	// ErrNoList is the fault of another value than a list.
	ErrNoList = errors.New("the value should be a JSON list")
)

// Object lists the members of a JSON object in their order; nil stands for any other value. For so
// few members a list is faster than a map.
type Object []Member

// Member is a name and a value, which is a part of the decoded text.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Read reads a JSON object. The error is, or wraps, one of the errors above or a syntactic error.
func Read(raw []byte, repeats Repeats) (Object, error) {
	if len(raw) <= Large {
		if o := parsePlain(raw, repeats); o != nil {
			return o, nil
		}
	}
	defer AcquireScanSlot(len(raw))()
	return decodeObject(raw, repeats)
}

// decodeObject reads any object.
func decodeObject(raw []byte, repeats Repeats) (Object, error) {
	if jsontext.Value(raw).Kind() != '{' {
		if err := jsonv2.Unmarshal(raw, new(skipped), jsontext.AllowDuplicateNames(true)); err != nil {
			return nil, err
		}
		return nil, ErrNoObject
	}
	r := reader{raw: raw, repeats: repeats, members: make(Object, 0, 4)}
	if err := jsonv2.Unmarshal(raw, &r, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, err
	}
	return r.members, nil
}

// ReadList reads the values of a JSON list, which is known to be valid. The error is ErrNoList, or
// ErrTooMany if there are more values than the maximum.
func ReadList(raw jsontext.Value, most int) ([]jsontext.Value, error) {
	if raw.Kind() != '[' {
		return nil, ErrNoList
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	values := make([]jsontext.Value, 0, 4)
	for dec.PeekKind() != ']' {
		if len(values) == most {
			return nil, ErrTooMany
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(dec.InputOffset()) // the decoder's value is valid only until its next call
		values = append(values, raw[end-len(value):end])
	}
	return values, nil
}

// Get returns a member's value, nil if it is missing.
func (o Object) Get(name string) jsontext.Value {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value
		}
	}
	return nil
}

// Take stores the values of the given names and returns the other members.
func (o Object) Take(into map[string]*jsontext.Value) (others Object) {
	return o.TakeBy(func(name string) *jsontext.Value { return into[name] })
}

// TakeBy stores the values of the names for which it finds a place, and returns the other members.
func (o Object) TakeBy(find func(name string) *jsontext.Value) (others Object) {
	for _, m := range o {
		if to := find(m.Name); to != nil {
			*to = m.Value
		} else {
			others = append(others, m)
		}
	}
	return others
}

// ClipName shortens a name for a message.
func ClipName(name string) string {
	if len(name) <= maxShown {
		return name
	}
	cut := maxShown
	for cut > 0 && name[cut]&0xC0 == 0x80 { // inside a character
		cut--
	}
	return name[:cut] + "…"
}

// skipped is a value that is not stored.
type skipped struct{}

// UnmarshalJSONFrom checks the syntax.
func (*skipped) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return dec.SkipValue() }

// reader reads an object's members without copying the values.
type reader struct {
	raw     []byte
	repeats Repeats
	members Object
}

// UnmarshalJSONFrom cuts the values from the text, because the decoder's are valid only until its
// next call.
func (r *reader) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for {
		token, err := dec.ReadToken()
		if err != nil || token.Kind() == '}' {
			return err
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		end := int(dec.InputOffset())
		if err := r.set(name, r.raw[end-len(value):end]); err != nil {
			return err
		}
	}
}

func (r *reader) set(name string, value jsontext.Value) error {
	for i := range r.members {
		if r.members[i].Name == name {
			if r.repeats == Unique {
				return fmt.Errorf("%w: %q", ErrRepeated, ClipName(name))
			}
			r.members[i].Value = value
			return nil
		}
	}
	if len(r.members) == MaxMembers {
		return ErrTooMany
	}
	r.members = append(r.members, Member{name, value})
	return nil
}
