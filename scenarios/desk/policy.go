package desk

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// Policy contains the numbers of the policy, which differ between instances, so that they have to
// be looked up. Periods are in days, business days, months or hours, as the document says; amounts
// are in cents.
type Policy struct {
	ReturnDays, PlusDays, BusinessDays, HolidayDay, RestockPercent         int64
	DamageDays, WarrantyMonths, BusinessWarranty, FreezeDay, ShipDays      int64
	LostDays, LostAbroad, SearchDays                                       int64
	HoldDays, CardDays, TransferDays, PriceDays, CouponPercent, CouponDays int64
	CancelDays, OutageHours                                                int64
	NewDays, ManyRefunds, TeamDays                                         int64
	PhotoFrom, LogisticsAbove                                              Cents
	RefundLimit, ReplaceLimit, CreditLimit, Goodwill                       Cents
}

// number is a number of the policy by its name in the document.
type number struct {
	name  string
	days  *int64
	money *Cents
	// lo, hi and step bound the values that are drawn.
	lo, hi, step int64
}

// numbers lists the policy's numbers with the ranges from which they are drawn.
func (p *Policy) numbers() []number {
	dollar := int64(100)
	return []number{
		{name: "return_days", days: &p.ReturnDays, lo: 21, hi: 35, step: 1},
		{name: "plus_days", days: &p.PlusDays, lo: 45, hi: 75, step: 5},
		{name: "business_days", days: &p.BusinessDays, lo: 10, hi: 18, step: 1},
		{name: "holiday_day", days: &p.HolidayDay, lo: 15, hi: 31, step: 1},
		{name: "restock_percent", days: &p.RestockPercent, lo: 8, hi: 20, step: 1},
		{name: "damage_days", days: &p.DamageDays, lo: 4, hi: 12, step: 1},
		{name: "photo_from", money: &p.PhotoFrom, lo: 40 * dollar, hi: 90 * dollar, step: 5 * dollar},
		{name: "warranty_months", days: &p.WarrantyMonths, lo: 18, hi: 36, step: 1},
		{name: "business_warranty", days: &p.BusinessWarranty, lo: 9, hi: 15, step: 1},
		{name: "freeze_day", days: &p.FreezeDay, lo: 17, hi: 22, step: 1},
		{name: "ship_days", days: &p.ShipDays, lo: 2, hi: 4, step: 1},
		{name: "lost_days", days: &p.LostDays, lo: 6, hi: 9, step: 1},
		{name: "lost_abroad", days: &p.LostAbroad, lo: 13, hi: 20, step: 1},
		{name: "search_days", days: &p.SearchDays, lo: 2, hi: 4, step: 1},
		{name: "logistics_above", money: &p.LogisticsAbove, lo: 240 * dollar, hi: 400 * dollar, step: 20 * dollar},
		{name: "hold_days", days: &p.HoldDays, lo: 5, hi: 9, step: 1},
		{name: "card_days", days: &p.CardDays, lo: 3, hi: 6, step: 1},
		{name: "transfer_days", days: &p.TransferDays, lo: 7, hi: 10, step: 1},
		{name: "price_days", days: &p.PriceDays, lo: 10, hi: 25, step: 1},
		{name: "coupon_percent", days: &p.CouponPercent, lo: 5, hi: 20, step: 1},
		{name: "coupon_days", days: &p.CouponDays, lo: 4, hi: 12, step: 1},
		{name: "cancel_days", days: &p.CancelDays, lo: 5, hi: 14, step: 1},
		{name: "outage_hours", days: &p.OutageHours, lo: 4, hi: 12, step: 1},
		{name: "refund_limit", money: &p.RefundLimit, lo: 120 * dollar, hi: 260 * dollar, step: 10 * dollar},
		{name: "replace_limit", money: &p.ReplaceLimit, lo: 120 * dollar, hi: 260 * dollar, step: 10 * dollar},
		{name: "credit_limit", money: &p.CreditLimit, lo: 40 * dollar, hi: 90 * dollar, step: 5 * dollar},
		{name: "new_days", days: &p.NewDays, lo: 40, hi: 90, step: 5},
		{name: "many_refunds", days: &p.ManyRefunds, lo: 3, hi: 4, step: 1},
		{name: "goodwill", money: &p.Goodwill, lo: 8 * dollar, hi: 20 * dollar, step: dollar},
		{name: "team_days", days: &p.TeamDays, lo: 2, hi: 5, step: 1},
	}
}

// Draw returns a policy whose numbers are drawn. below returns a number from 0 to n-1, from a
// stream of its own for each name.
func Draw(below func(name string, n uint64) uint64) Policy {
	var p Policy
	for _, n := range p.numbers() {
		value := n.lo + n.step*int64(below(n.name, uint64((n.hi-n.lo)/n.step+1))) //nolint:gosec // small ranges
		if n.money != nil {
			*n.money = Cents(value)
		} else {
			*n.days = value
		}
	}
	return p
}

// Number returns a number of the policy by its name, amounts in cents.
func (p *Policy) Number(name string) (int64, bool) {
	for _, n := range p.numbers() {
		switch {
		case n.name != name:
		case n.money != nil:
			return int64(*n.money), true
		default:
			return *n.days, true
		}
	}
	return 0, false
}

//go:embed policy.md
var document string

// Document returns the policy with the names of its numbers in place of the numbers.
func Document() string { return document }

// section is a topic of the policy.
type section struct {
	topic, title string
	body         template
}

// template is a text with numbers: texts and names of numbers take turns, beginning with a text.
type template []string

var sections = sync.OnceValue(func() []section {
	parts := strings.Split("\n"+document, "\n# ")[1:]
	out := make([]section, 0, len(parts))
	for _, part := range parts {
		title, body, _ := strings.Cut(part, "\n")
		var t template
		for i, piece := range strings.Split(strings.TrimSpace(body), "{{") {
			if i == 0 {
				t = append(t, piece)
				continue
			}
			name, text, _ := strings.Cut(piece, "}}")
			t = append(t, name, text)
		}
		out = append(out, section{topic: strings.ToLower(strings.Fields(title)[0]), title: title, body: t})
	}
	return out
})

// Topics are the topics of the policy, in its order. The terms are part of every topic.
func Topics() []string {
	topics := make([]string, 0, len(sections()))
	for _, s := range sections()[1:] {
		topics = append(topics, s.topic)
	}
	return topics
}

// Page is a section of the policy with the numbers of an instance.
type Page struct{ Topic, Title, Body string }

// Pages are the sections of the policy in its order, the terms first.
func (p *Policy) Pages() []Page {
	texts := p.texts()
	pages := make([]Page, 0, len(sections()))
	for _, s := range sections() {
		pages = append(pages, s.page(texts))
	}
	return pages
}

// Section returns the text of a topic with the policy's numbers, after the terms, "" for an unknown
// topic.
func (p *Policy) Section(topic string) string {
	for _, s := range sections()[1:] {
		if s.topic == topic {
			texts := p.texts()
			return sections()[0].page(texts).String() + "\n\n" + s.page(texts).String()
		}
	}
	return ""
}

func (p Page) String() string { return "# " + p.Title + "\n\n" + p.Body }

// texts are the numbers as the document shows them, by name.
func (p *Policy) texts() map[string]string {
	out := map[string]string{}
	for _, n := range p.numbers() {
		if n.money != nil {
			out[n.name] = "$" + n.money.String()
		} else {
			out[n.name] = strconv.FormatInt(*n.days, 10)
		}
	}
	return out
}

func (s *section) page(texts map[string]string) Page {
	var b strings.Builder
	for i, piece := range s.body {
		if i%2 == 0 {
			b.WriteString(piece)
		} else {
			b.WriteString(texts[piece])
		}
	}
	return Page{Topic: s.topic, Title: s.title, Body: b.String()}
}
