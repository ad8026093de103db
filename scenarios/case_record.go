package scenarios

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
)

// recordName is the name of the attachment with the records.
const recordName = "record.txt"

// recordText writes the records as lines, with the names that the desk's tools give the values.
func recordText(r *desk.Records) string {
	var b strings.Builder
	record(&b, "customer", r.Customer)
	recordAll(&b, "order", r.Orders)
	recordAll(&b, "payment", r.Payments)
	recordAll(&b, "shipment", r.Shipments)
	recordAll(&b, "subscription", r.Subscriptions)
	recordAll(&b, "outage", r.Outages)
	recordAll(&b, "refund", r.Refunds)
	recordAll(&b, "credit", r.Credits)
	return strings.TrimSpace(b.String())
}

func recordAll[T any](b *strings.Builder, title string, all []T) {
	for _, one := range all {
		record(b, title, one)
	}
}

// record writes a title and a line for each field of a struct.
func record(b *strings.Builder, title string, of any) {
	b.WriteString("\n" + title + "\n")
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		if options != "" && field.IsZero() {
			continue
		}
		name = strings.ReplaceAll(name, "_", " ")
		if field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct {
			// The nested records are the last fields with a value.
			for k := range field.Len() {
				record(b, title+", "+strings.TrimSuffix(name, "s"), field.Index(k).Interface())
			}
			continue
		}
		b.WriteString("  " + name + ": " + recordValue(field.Interface()) + "\n")
	}
}

func recordValue(value any) string {
	switch v := value.(type) {
	case desk.Cents:
		return "$" + v.String()
	case time.Time:
		return v.Format("2006-01-02 15:04")
	case []string:
		return strings.Join(v, ", ")
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(value)
}
