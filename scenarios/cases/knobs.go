package cases

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

// unit is the unit of a knob's values.
type unit int

const (
	word   unit = iota // one of the knob's words
	flag               // true or false
	count              // a whole number: pieces, days, hours
	amount             // cents, written as "12.50"
)

// knob is a property of a world that families and modifiers can set.
type knob struct {
	unit  unit
	words string // the words, separated by |, of a knob of words
	value string // without a family or modifier that sets it
}

// knobs are all knobs. Days are days before now, unless the comment says more.
var knobs = sync.OnceValue(func() map[string]knob {
	return map[string]knob{
		"season":   {word, "any|holiday|freeze", "any"}, // of now: anytime; January; around December 20
		"level":    {word, "basic|plus|business", "basic"},
		"region":   {word, "domestic|eu|overseas", "domestic"},
		"since":    {count, "", "700"},
		"verified": {flag, "", "true"},
		"hold":     {flag, "", "false"},
		"owner":    {word, "self|merged|stranger", "self"}, // of the order

		"status":     {word, "placed|packed|shipped|delivered", "delivered"},
		"placed":     {count, "", "4"}, // days before the delivery, or before now if there is none
		"items":      {count, "", "1"},
		"kind":       {word, "standard|final_sale|custom|hygiene", "standard"}, // of the request's item
		"price":      {amount, "", "49.00"},
		"quantity":   {count, "", "1"},
		"unshipped":  {count, "", "0"}, // pieces of the request's item
		"list_price": {count, "", "100"},
		"stock":      {count, "", "9"},
		"made":       {count, "", "0"}, // days after now until the production of a custom item begins
		"fee":        {amount, "", "0.00"},
		"service":    {word, "standard|express", "standard"},
		"promised":   {count, "", "0"}, // days after the delivery; negative if it came late
		"duties":     {word, "none|prepaid|by_recipient", "none"},
		"duty":       {amount, "", "0.00"},
		"coupon":     {flag, "", "false"},

		"paid":        {word, "card|transfer|gift_card|mixed", "card"},
		"gift":        {count, "", "50"}, // percent of a mixed payment
		"captured":    {word, "captured|authorised|charged_back", "captured"},
		"second":      {word, "none|captured|authorised|refunded", "none"},
		"second_paid": {count, "", "0"}, // days

		"delivered": {count, "", "9"},
		"scan":      {count, "", "3"}, // business days before now
		"signed":    {flag, "", "false"},
		"outdated":  {flag, "", "false"}, // the order says shipped although the parcel was delivered
		"cause":     {word, "none|weather|customs|sorting", "none"},

		"recent_refunds": {count, "", "0"},
		"earlier":        {word, "none|credit|price|goodwill|old_goodwill|refund", "none"},
		"earlier_amount": {amount, "", "10.00"},
		"earlier_days":   {count, "", "1"},

		"plan":    {word, "none|plus|max", "none"},
		"monthly": {amount, "", "12.00"},
		"cheaper": {amount, "", "7.00"},
		"renewed": {count, "", "12"},
		"used":    {flag, "", "false"},
		"outage":  {count, "", "0"}, // hours
	}
})

// spec says how a knob's value is drawn: one of the choices, or a number from lo to hi, to which a
// number of the policy is added if near names one.
type spec struct {
	choices      []value
	lo, hi, step int64
	near         string
	pos          source.Position
}

// value is the value of a knob: its text, and its number, 1 for true.
type value struct {
	text   string
	number int64
}

// parse reads a value of the knob.
func (k knob) parse(text string) (value, error) {
	v := value{text: text}
	var err error
	switch k.unit {
	case word:
		if !slices.Contains(strings.Split(k.words, "|"), text) {
			err = fmt.Errorf("it is one of %s", strings.ReplaceAll(k.words, "|", ", "))
		}
	case flag:
		if text == "true" {
			v.number = 1
		} else if text != "false" {
			err = errors.New("it is true or false")
		}
	case count:
		v.number, err = strconv.ParseInt(text, 10, 32)
	case amount:
		var cents int64
		cents, err = expr.ParseMoney(text)
		v.number = cents
	}
	return v, err
}

// specFile is a spec as it is written: a value, a list of values, {from, to, step}, or
// {near, by: [from, to]}.
type specFile struct {
	texts          []string
	from, to, step string
	near           string
	by             []int64
	pos            source.Position
}

type rangeFile struct {
	From source.Raw `yaml:"from,optional"`
	To   source.Raw `yaml:"to,optional"`
	Step source.Raw `yaml:"step,optional"`
	Near string     `yaml:"near,optional"`
	By   []int64    `yaml:"by,optional"`
}

// FromYAML implements source.Unmarshaler.
func (s *specFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	s.pos = d.At(n)
	switch n.Kind {
	case yaml.ScalarNode:
		s.texts = []string{n.Value}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			s.texts = append(s.texts, item.Value)
		}
	default:
		var f rangeFile
		d.Mapping(n, source.ValueOf(&f))
		s.from, s.to, s.step, s.near, s.by = f.From.Text, f.To.Text, f.Step.Text, f.Near, f.By
	}
}

// compile returns the spec of the knob of that name.
func (s *specFile) compile(name string) (spec, error) {
	out := spec{step: 1, near: s.near, pos: s.pos}
	k, ok := knobs()[name]
	if !ok {
		return out, s.pos.Errorf("there is no property %q%s", name, source.SuggestWord(name, knobNames()))
	}
	for _, text := range s.texts {
		v, err := k.parse(text)
		if err != nil {
			return out, s.pos.Errorf("%s can't be %q: %v", name, text, err)
		}
		out.choices = append(out.choices, v)
	}
	switch {
	case len(out.choices) > 0:
		return out, nil
	case k.unit != count && k.unit != amount:
		return out, s.pos.Errorf("%s isn't a number: list its values", name)
	case s.near != "" && len(s.by) == 2:
		out.lo, out.hi = s.by[0], s.by[1]
	case s.near == "" && s.from != "" && s.to != "":
		texts := [...]string{s.from, s.to, cmp.Or(s.step, map[unit]string{count: "1", amount: "1.00"}[k.unit])}
		for i, into := range []*int64{&out.lo, &out.hi, &out.step} {
			v, err := k.parse(texts[i])
			if err != nil {
				return out, s.pos.Errorf("%s can't be %q: %v", name, texts[i], err)
			}
			*into = v.number
		}
	default:
		return out, s.pos.Errorf("%s: want a value, a list, {from, to, step} or {near, by: [from, to]}", name)
	}
	if out.step <= 0 || out.hi < out.lo || (out.hi-out.lo)%out.step != 0 {
		return out, s.pos.Errorf("%s: the range must go upwards in whole steps", name)
	}
	return out, nil
}

func knobNames() []string { return slices.Sorted(maps.Keys(knobs())) }

// draw returns a value. base returns the number that near names.
func (s *spec) draw(key expr.StreamKey, name string, base func(near string) int64) value {
	switch n := uint64(len(s.choices)); {
	case n == 1:
		return s.choices[0]
	case n > 1:
		return s.choices[key.Stream(name).Below(n)]
	}
	n := s.lo + s.step*int64(key.Stream(name).Below(uint64((s.hi-s.lo)/s.step+1))) //nolint:gosec // a small range
	if s.near != "" {
		n += base(s.near)
	}
	return value{number: n}
}

// defaults returns the values of knobs that nothing sets.
var defaults = sync.OnceValue(func() map[string]value {
	out := map[string]value{}
	for name, k := range knobs() {
		v, err := k.parse(k.value)
		if err != nil {
			panic(fmt.Errorf("property %s: %w", name, err)) // The table is a constant.
		}
		out[name] = v
	}
	return out
})
