package v1alpha1

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Number is a decimal number of a spec. The zero value is unset: fields of this type have the tag
// omitzero.
// +kubebuilder:validation:Type=number
type Number struct {
	// Text is the exact number, such as "0.8". ParseNumber makes it canonical, so that equal
	// numbers have equal texts.
	Text string `json:"-"`
}

// String returns the number as text, "" if it is unset.
func (n Number) String() string { return n.Text }

// numberPlaces is the maximum number of digits after the point.
const numberPlaces = 6

// numberPattern bounds the digits and the exponent, so that no text costs more than a few bytes.
var numberPattern = regexp.MustCompile(`^-?[0-9]{1,12}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?$`)

// ParseNumber reads a decimal number with at most six digits after the point.
func ParseNumber(text string) (Number, error) {
	if !numberPattern.MatchString(text) {
		return Number{}, fmt.Errorf("%.40q is not a decimal number: write it like 0.75", text)
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return Number{}, fmt.Errorf("%.40q is not a decimal number: write it like 0.75", text)
	}
	plain := exact.FloatString(numberPlaces)
	if short, _ := new(big.Rat).SetString(plain); short.Cmp(exact) != 0 {
		return Number{}, fmt.Errorf("%.40s has more than %d digits after the point", text, numberPlaces)
	}
	return Number{strings.TrimSuffix(strings.TrimRight(plain, "0"), ".")}, nil
}

// Millionths returns the number in millionths.
func (n Number) Millionths() (int64, error) {
	number, err := ParseNumber(n.Text)
	if err != nil {
		return 0, err
	}
	whole, places, _ := strings.Cut(number.Text, ".")
	value, err := strconv.ParseInt(whole+places+strings.Repeat("0", numberPlaces-len(places)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", n.Text, err)
	}
	return value, nil
}

// MarshalJSON writes a JSON number.
func (n Number) MarshalJSON() ([]byte, error) {
	number, err := ParseNumber(n.Text)
	return []byte(number.Text), err
}

// UnmarshalJSON reads a JSON number. It also reads a string: the schema refuses strings, but an
// object that was stored before it did must not keep clients from listing the others.
func (n *Number) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("reading a decimal number: %w", err)
		}
	}
	if text == "null" {
		return nil
	}
	number, err := ParseNumber(text)
	*n = number
	return err
}
