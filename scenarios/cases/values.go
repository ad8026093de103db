package cases

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

// orderValue is the value that a customer may leave out.
const orderValue = "order"

// values are the names that texts can use.
var values = sync.OnceValue(func() map[string]func(w *world, l *expr.Locale) string {
	money := func(of func(w *world) desk.Cents) func(*world, *expr.Locale) string {
		return func(w *world, l *expr.Locale) string { return l.Money(int64(of(w))) }
	}
	day := func(of func(w *world) time.Time) func(*world, *expr.Locale) string {
		return func(w *world, l *expr.Locale) string { return l.Day(of(w)) }
	}
	number := func(of func(w *world) int64) func(*world, *expr.Locale) string {
		return func(w *world, _ *expr.Locale) string { return strconv.FormatInt(of(w), 10) }
	}
	word := func(of func(w *world) string) func(*world, *expr.Locale) string {
		return func(w *world, _ *expr.Locale) string { return of(w) }
	}
	parcel := func(w *world) desk.Shipment { return append(w.Shipments, desk.Shipment{})[0] }
	plan := func(w *world) desk.Subscription {
		return append(w.Subscriptions, desk.Subscription{Others: []desk.Plan{{}}})[0]
	}
	return map[string]func(w *world, l *expr.Locale) string{
		"given":     word(func(w *world) string { given, _, _ := strings.Cut(w.Customer.Name, " "); return given }),
		"full":      word(func(w *world) string { return w.Customer.Name }),
		orderValue:  word(func(w *world) string { return w.Orders[0].ID }),
		"product":   word(func(w *world) string { return w.item.Name }),
		"price":     money(func(w *world) desk.Cents { return w.item.Price }),
		"list":      money(func(w *world) desk.Cents { return w.item.ListPrice }),
		"total":     money(func(w *world) desk.Cents { return w.Orders[0].Total }),
		"fee":       money(func(w *world) desk.Cents { return w.Orders[0].Delivery }),
		"duty":      money(func(w *world) desk.Cents { return parcel(w).Duty }),
		"quantity":  number(func(w *world) int64 { return w.item.Quantity }),
		"unshipped": number(func(w *world) int64 { return w.item.Quantity - w.item.Shipped }),
		"placed":    day(func(w *world) time.Time { return w.Orders[0].Placed }),
		"delivered": day(func(w *world) time.Time { return parcel(w).Delivered }),
		"promised":  day(func(w *world) time.Time { return w.Orders[0].Promised }),
		"tracking":  word(func(w *world) string { return parcel(w).Tracking }),
		"carrier":   word(func(w *world) string { return parcel(w).Carrier }),
		"address":   word(func(w *world) string { return w.address }),
		"email":     word(func(w *world) string { return w.Customer.Email }),
		"serial":    word(func(w *world) string { return serialID.Draw(w.key.Stream("serial")) }),
		"plan":      word(func(w *world) string { return plan(w).Plan }),
		"cheaper":   word(func(w *world) string { return plan(w).Others[0].Name }),
		"monthly":   money(func(w *world) desk.Cents { return plan(w).Price }),
		"renewed":   day(func(w *world) time.Time { return plan(w).Renewed }),
		"hours":     number(func(w *world) int64 { return w.count("outage") }),
	}
})

var serialID = mustPattern("SN{digits:8}")
