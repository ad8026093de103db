package facts

import (
	"testing"
	"time"
)

// tuesday is a Tuesday, 10:00.
var tuesday = time.Date(2026, 4, 7, 10, 0, 0, 0, time.UTC)

// TestEqual checks which forms of a value are equal to it.
func TestEqual(t *testing.T) {
	for _, c := range []struct {
		language, what, required string
		equal, other             []string
	}{
		{"en", "refund_amount", "$135.50",
			[]string{"135.5", "135.50 USD", "$ 135.50", "USD135.50", "135.50 dollars", "**$135.50**", "135,50"},
			[]string{"$135.05", "135", "$135.50 or $140", "$135.50, $12", "135.50 and 20", "", "none", "a lot"}},
		{"en", "refund_amount", "$1,235.50",
			[]string{"1235.50", "1,235.50", "1 235.50", "1235.5", "$1235.50", "1.235,50 $"}, []string{"$123.55", "1.2355"}},
		{"de", "refund_amount", "1.235,50 $", []string{"1235.50", "$1,235.50", "1.235,50", "1235,50 $"},
			[]string{"1235"}},
		{"en", "price", "0", []string{"$0", "free", "no charge", "0.00", "free of charge"}, []string{"1", "none", "unknown"}},
		{"en", "answer_by", "3 business days",
			[]string{"three business days", "3 working days", "within 3 business days", "3 workdays", "April 10",
				"2026-04-10", "Friday", "3 (three) business days", "3 days (business days)", "2 to 3 business days",
				"2-3 business days", "3 business days (by April 10)", "10-Apr-2026", "Apr. 10, 2026", "10 April",
				"April **10**"},
			[]string{"3 days", "5 business days", "3 or 5 business days", "3 business days, 5 business days", "April 11",
				"Saturday", "3", "soon", "3 to 5 business days", "April 10 or April 13"}},
		{"en", "arrives_by", "1 business day", []string{"next business day", "tomorrow", "2026-04-08", "Wednesday"},
			[]string{"today", "Tuesday", "1 day"}},
		{"en", "arrives_by", "April 14, 2026", []string{"5 business days", "7 days", "a week", "1 week", "4/14/2026"},
			[]string{"Tuesday", "6 days"}},
		{"en", "done_by", "60 minutes", []string{"1 hour", "an hour", "within the hour", "11:00", "11 am", "one hour"},
			[]string{"12:00", "61 minutes"}},
		{"en", "done_by", "40 minutes", []string{"40 min", "10:40", "10:41", "forty minutes"}, []string{"10:44", "40"}},
		{"en", "last_day", "18:00", []string{"6 pm", "6:00 p.m.", "18:00 today"}, []string{"17:00", "6"}},
		{"en", "period", "24 hours", []string{"1 day", "24h", "one day"}, []string{"1 business day", "2 days"}},
		{"en", "period", "12 months", []string{"1 year", "a year", "twelve months"}, []string{"365 days"}},
		{"en", "threshold", "6 hours", []string{"6", "six hours", "360 minutes"}, []string{"6 days", "7", "6 kg"}},
		{"en", "threshold", "$200.00", []string{"200", "$200"}, []string{"$20"}},
		{"en", "limit", "18 kg", []string{"18", "18kg", "18 kilograms"}, []string{"18 lb", "19 kg"}},
		{"en", "count", "3", []string{"three", "3 hubs"}, []string{"2", "4"}},
		{"en", "property", "12 percent", []string{"12%", "12 %"}, []string{"13%"}},
		{"en", "property", "2.4 GHz", []string{"2.4", "2.4GHz", "2.4 gigahertz"}, []string{"5 GHz"}},
		{"en", "property", "Zigbee", []string{"zigbee", "Zigbee radio"}, []string{"Thread", "Zigbee or Thread"}},
		{"en", "team", "finance", []string{"finance team", "Finance Desk", "billing team", "finance-and-billing",
			"the finance department"}, []string{"logistics", "finance or logistics", "sales", "finance, trust"}},
		{"en", "team", "emergency_disclosure", []string{"emergency disclosure desk", "legal-emergency-disclosure"},
			[]string{"trust"}},
		{"en", "advice", "stop_using", []string{"stop using", "Stop-Using"}, []string{"use_key", "stop using, use key"}},
		{"en", "data_kept", "no", []string{"No", "false"}, []string{"yes", "none"}},
		{"en", "reference", "LT710284787", []string{"lt-710284787", "LT 710284787", "#710284787", "parcel LT710284787",
			"`LT710284787`"}, []string{"LT710284788", "84787 LT", "LT710284787, LT710284788", "LT710284787 LT710284788"}},
		{"en", "carrier", "Tandem Couriers", []string{"tandem couriers", "the Tandem Couriers", "carrier Tandem Couriers"},
			[]string{"Couriers", "Tandem Couriers or Northline"}},
		{"en", "place", "dock 11", []string{"Dock 11, Millhaven"}, []string{"dock 1", "dock 12"}},
		{"de", "answer_by", "5 Werktage", []string{"5 business days", "fünf Werktage", "14. April", "April 14"},
			[]string{"5 Tage"}},
		{"es", "arrives_by", "29 de septiembre de 2026", []string{"29 sept. 2026", "2026-09-29", "Sept 29"}, nil},
		{"fr", "arrives_by", "29 septembre 2026", []string{"29 sept. 2026", "29-09-2026"}, nil},
		{"fr", "arrives_by", "sept jours", []string{"7 jours", "7 days"}, nil},
	} {
		ctx := NewContext(c.language, tuesday)
		name, _ := Find(c.what)
		required := ctx.read(name, c.required)
		equal := func(s string) bool {
			v := ctx.read(name, s)
			return Fact{c.what, s}.IsStated() && ctx.equal(&required, &v)
		}
		if !equal(c.required) {
			t.Errorf("%s %q doesn't equal itself", c.what, c.required)
		}
		for _, s := range c.equal {
			if !equal(s) {
				t.Errorf("%s %q doesn't equal %q", c.what, s, c.required)
			}
		}
		for _, s := range c.other {
			if equal(s) {
				t.Errorf("%s %q equals %q", c.what, s, c.required)
			}
		}
	}
}

func TestIsStated(t *testing.T) {
	for f, want := range map[Fact]bool{
		{"refund_amount", ""}: false, {"refund_amount", "none"}: false, {"team", "Unknown"}: false,
		{"refund_amount", "0"}: false, {"refund_amount", "$0.00"}: false, {"price", "0"}: true, {"count", "0"}: false,
		{"data_kept", "no"}: true, {"advice", "nothing"}: true, {"advice", "none"}: false, {"count", "10"}: true,
		{"answer_by", "not specified"}: false, {"answer_by", "0 days"}: true,
	} {
		if f.IsStated() != want {
			t.Errorf("%v is stated: %v", f, !want)
		}
	}
}

// TestMessage checks in which forms a value stands in a message.
func TestMessage(t *testing.T) {
	for _, c := range []struct {
		language, what, value string
		has, lacks            []string
	}{
		{"en", "answer_by", "5 business days", []string{
			"You will hear from us within **5** business days.", "within five working days", "within 5 workdays",
			"in 5 (five) business days", "by April 14", "by April **14**", "by 14-Apr-2026", "in 5 weekdays",
			"it takes 3 to 5 business days"}, []string{"within 5 days", "within 6 business days", "by April 15"}},
		{"en", "refund_amount", "$12.50", []string{"USD12.50 goes back", "We return 12.50 USD.", "`$12.50`"},
			[]string{"$12.05"}},
		{"en", "price", "0", []string{"This is free of charge.", "at no charge", "it costs nothing"}, []string{"$5"}},
		{"en", "done_by", "1 hour", []string{"within the hour", "It takes an hour.", "by 11:00"}, []string{"in a moment"}},
		{"en", "reference", "LT710284787", []string{"parcel LT 710 284 787", "LT-710284787", "number 710284787"},
			[]string{"LT710284788"}},
		{"en", "reference", "4711", []string{"the code is 4711.", "code 47-11"}, []string{"471", "14711"}},
		{"en", "team", "finance", []string{"Our billing colleagues decide", "finance has it"}, []string{"logistics"}},
		{"de", "team", "trust", []string{"Unser Trust-Team", "das Vertrauensteam"}, []string{"Finanzteam"}},
		{"en", "control", "Preferred place", []string{"open *Preferred place*, then", "Account > Preferred place"},
			[]string{"preferred"}},
		{"en", "advice", "stop_using", []string{"whatever"}, nil},
		{"en", "count", "3", []string{"all three hubs", "3 documents"}, []string{"two"}},
		{"es", "arrives_by", "29 de septiembre de 2026", []string{"llega el 29 sept. de 2026", "el 29 de septiembre"}, nil},
	} {
		ctx := NewContext(c.language, tuesday)
		name, _ := Find(c.what)
		v := ctx.read(name, c.value)
		for _, s := range c.has {
			if !ctx.NewMessage(s).has(&v) {
				t.Errorf("%s %q isn't found in %q", c.what, c.value, s)
			}
		}
		for _, s := range c.lacks {
			if ctx.NewMessage(s).has(&v) {
				t.Errorf("%s %q is found in %q", c.what, c.value, s)
			}
		}
	}
}
