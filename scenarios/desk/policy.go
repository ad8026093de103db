package desk

import (
	"cmp"
	_ "embed"
	"slices"
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

	// Talks means that the rules about conversations apply.
	Talks bool `json:",omitempty"`
}

// number is a number of the policy by its name in the document.
type number struct {
	name string
	// days or money is the field of the number.
	days  func(p *Policy) *int64
	money func(p *Policy) *Cents
	// unit follows the number in the document, in English: "" for a day of a month and for a count.
	unit string
	// lo, hi and step bound the values that are drawn.
	lo, hi, step int64
}

// numbers lists the numbers of policies with the ranges from which they are drawn.
var numbers = sync.OnceValue(func() []number {
	days := func(name, unit string, field func(p *Policy) *int64, lo, hi, step int64) number {
		return number{name: name, unit: unit, days: field, lo: lo, hi: hi, step: step}
	}
	money := func(name string, field func(p *Policy) *Cents, lo, hi, step int64) number { // in dollars
		return number{name: name, money: field, lo: 100 * lo, hi: 100 * hi, step: 100 * step}
	}
	return []number{
		days("return_days", "days", func(p *Policy) *int64 { return &p.ReturnDays }, 21, 35, 1),
		days("plus_days", "days", func(p *Policy) *int64 { return &p.PlusDays }, 45, 75, 5),
		days("business_days", "days", func(p *Policy) *int64 { return &p.BusinessDays }, 10, 18, 1),
		days("holiday_day", "", func(p *Policy) *int64 { return &p.HolidayDay }, 15, 31, 1),
		days("restock_percent", "%", func(p *Policy) *int64 { return &p.RestockPercent }, 8, 20, 1),
		days("damage_days", "days", func(p *Policy) *int64 { return &p.DamageDays }, 4, 12, 1),
		money("photo_from", func(p *Policy) *Cents { return &p.PhotoFrom }, 40, 90, 5),
		days("warranty_months", "months", func(p *Policy) *int64 { return &p.WarrantyMonths }, 18, 36, 1),
		days("business_warranty", "months", func(p *Policy) *int64 { return &p.BusinessWarranty }, 9, 15, 1),
		days("freeze_day", "", func(p *Policy) *int64 { return &p.FreezeDay }, 17, 22, 1),
		days("ship_days", "business days", func(p *Policy) *int64 { return &p.ShipDays }, 2, 4, 1),
		days("lost_days", "business days", func(p *Policy) *int64 { return &p.LostDays }, 6, 9, 1),
		days("lost_abroad", "business days", func(p *Policy) *int64 { return &p.LostAbroad }, 13, 20, 1),
		days("search_days", "business days", func(p *Policy) *int64 { return &p.SearchDays }, 2, 4, 1),
		money("logistics_above", func(p *Policy) *Cents { return &p.LogisticsAbove }, 240, 400, 20),
		days("hold_days", "business days", func(p *Policy) *int64 { return &p.HoldDays }, 5, 9, 1),
		days("card_days", "business days", func(p *Policy) *int64 { return &p.CardDays }, 3, 6, 1),
		days("transfer_days", "business days", func(p *Policy) *int64 { return &p.TransferDays }, 7, 10, 1),
		days("price_days", "days", func(p *Policy) *int64 { return &p.PriceDays }, 10, 25, 1),
		days("coupon_percent", "%", func(p *Policy) *int64 { return &p.CouponPercent }, 5, 20, 1),
		days("coupon_days", "days", func(p *Policy) *int64 { return &p.CouponDays }, 4, 12, 1),
		days("cancel_days", "days", func(p *Policy) *int64 { return &p.CancelDays }, 5, 14, 1),
		days("outage_hours", "hours", func(p *Policy) *int64 { return &p.OutageHours }, 4, 12, 1),
		money("refund_limit", func(p *Policy) *Cents { return &p.RefundLimit }, 120, 260, 10),
		money("replace_limit", func(p *Policy) *Cents { return &p.ReplaceLimit }, 120, 260, 10),
		money("credit_limit", func(p *Policy) *Cents { return &p.CreditLimit }, 40, 90, 5),
		days("new_days", "days", func(p *Policy) *int64 { return &p.NewDays }, 40, 90, 5),
		days("many_refunds", "", func(p *Policy) *int64 { return &p.ManyRefunds }, 3, 4, 1),
		money("goodwill", func(p *Policy) *Cents { return &p.Goodwill }, 8, 20, 1),
		days("team_days", "business days", func(p *Policy) *int64 { return &p.TeamDays }, 2, 5, 1),
	}
})

// DrawPolicy returns a policy whose numbers are drawn. below returns a number from 0 to n-1, from a
// stream of its own for each name.
func DrawPolicy(below func(name string, n uint64) uint64) Policy {
	var p Policy
	for _, n := range numbers() {
		value := n.lo + n.step*int64(below(n.name, uint64((n.hi-n.lo)/n.step+1))) //nolint:gosec // small ranges
		if n.money != nil {
			*n.money(&p) = Cents(value)
		} else {
			*n.days(&p) = value
		}
	}
	return p
}

// Number returns a number of the policy by its name, amounts in cents.
func (p *Policy) Number(name string) (int64, bool) {
	for _, n := range numbers() {
		switch {
		case n.name != name:
		case n.money != nil:
			return int64(*n.money(p)), true
		default:
			return *n.days(p), true
		}
	}
	return 0, false
}

//go:embed policy.md
var document string

// conversations is the topic that only policies of conversations have.
//
//go:embed conversations.md
var conversations string

// Conversations is the name of that topic.
const Conversations = "conversations"

// PolicyDocument returns the policy with the names of its numbers in place of the numbers.
func PolicyDocument() string { return document }

// section is a topic of the policy. Texts and numbers take turns, beginning and ending with a text.
type section struct {
	topic, title string
	texts        []string
	numbers      []number
}

var sections = sync.OnceValue(func() []section { return parseSections(document) })

var talkSections = sync.OnceValue(func() []section { return parseSections(conversations) })

func parseSections(document string) []section {
	parts := strings.Split("\n"+document, "\n# ")[1:]
	out := make([]section, 0, len(parts))
	for _, part := range parts {
		title, body, _ := strings.Cut(part, "\n")
		next := section{topic: strings.ToLower(strings.Fields(title)[0]), title: title}
		for i, piece := range strings.Split(strings.TrimSpace(body), "{{") {
			if i > 0 {
				name, text, _ := strings.Cut(piece, "}}")
				at := slices.IndexFunc(numbers(), func(n number) bool { return n.name == name })
				next.numbers, piece = append(next.numbers, numbers()[at]), text
			}
			next.texts = append(next.texts, piece)
		}
		out = append(out, next)
	}
	return out
}

// ListTopics are the topics of every policy, in its order. The terms are part of every topic.
func ListTopics() []string {
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
	pages := make([]Page, 0, len(sections()))
	for _, s := range sections() {
		pages = append(pages, s.page(p))
	}
	return pages
}

// Section returns the text of a topic with the policy's numbers, after the terms, "" for an unknown
// topic.
func (p *Policy) Section(topic string) string {
	topics := sections()[1:]
	if p.Talks {
		topics = slices.Concat(topics, talkSections())
	}
	for _, s := range topics {
		if s.topic == topic {
			return sections()[0].page(p).String() + "\n\n" + s.page(p).String()
		}
	}
	return ""
}

// Rule returns the text of a rule by its number, such as RET-1, "" for an unknown one.
func (p *Policy) Rule(number string) string {
	_, after, _ := strings.Cut(p.Section(cmp.Or(TopicOf(number), ListTopics()[0])), "- **"+number+"** ")
	text, _, _ := strings.Cut(after, "\n")
	return text
}

func (p Page) String() string { return "# " + p.Title + "\n\n" + p.Body }

// page writes the section with the numbers of a policy.
func (s *section) page(p *Policy) Page {
	var b strings.Builder
	for i, text := range s.texts {
		if i > 0 {
			b.WriteString(s.numbers[i-1].text(p))
		}
		b.WriteString(text)
	}
	return Page{Topic: s.topic, Title: s.title, Body: b.String()}
}

// text is the number as the document shows it.
func (n *number) text(p *Policy) string {
	if n.money != nil {
		return "$" + n.money(p).String()
	}
	return strconv.FormatInt(*n.days(p), 10)
}
