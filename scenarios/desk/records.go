// Package desk is the world of a support desk: the records of a customer, and the policy that
// decides what is right to do about a request. The records state facts; what is right follows from
// them and the policy alone.
package desk

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Cents is an amount of US dollars in cents. Its JSON, which agents receive and send, is a decimal
// number of dollars with two digits (1234 is 12.34).
type Cents int64

// MarshalJSON writes dollars with two decimals.
func (c Cents) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Cents) UnmarshalJSON(data []byte) error {
	dollars, err := strconv.ParseFloat(string(data), 64)
	if err != nil || math.Abs(dollars) > 1e12 {
		return fmt.Errorf("%.40q is no amount", data)
	}
	*c = Cents(math.Round(dollars * 100))
	return nil
}

// String returns the amount in dollars with two decimals and no currency sign, such as "-12.34".
func (c Cents) String() string {
	sign := ""
	if c < 0 {
		sign, c = "-", -c
	}
	return fmt.Sprintf("%s%d.%02d", sign, c/100, c%100)
}

// Records are what the desk's tools show.
type Records struct {
	Customer      Customer
	Orders        []Order
	Payments      []Payment
	Refunds       []Refund
	Credits       []Credit
	Cases         []Escalation
	Shipments     []Shipment
	Subscriptions []Subscription
	Outages       []Outage
}

// Customer is the result of look_up_customer. Refunds, credits and cases of the past are part of
// that result.
type Customer struct {
	ID     string    `json:"customer_id"`
	Name   string    `json:"name"`
	Email  string    `json:"email"`
	Level  string    `json:"level"`  // basic, plus or business
	Region string    `json:"region"` // domestic, eu or overseas
	Since  time.Time `json:"customer_since"`
	// Verified means that the sender of the request is the owner of the account.
	Verified bool     `json:"verified"`
	Hold     string   `json:"hold,omitempty"` // fraud_review or ""
	Merged   []string `json:"merged_accounts,omitempty"`
}

// Order is the result of check_order_status.
type Order struct {
	ID     string    `json:"order_id"`
	Owner  string    `json:"customer_id"`
	Status string    `json:"status"` // placed, packed, shipped, delivered, cancelled, on_hold
	Placed time.Time `json:"placed"`
	// Delivered, Carrier and Tracking are set in written workflows, which have no shipments.
	Delivered time.Time `json:"delivered,omitzero"`
	Carrier   string    `json:"carrier,omitempty"`
	Tracking  string    `json:"tracking,omitempty"`
	Total     Cents     `json:"total"`
	Delivery  Cents     `json:"delivery_fee"`
	Service   string    `json:"delivery_service"` // standard or express
	Promised  time.Time `json:"promised_by,omitzero"`
	Address   string    `json:"address"`
	Duties    string    `json:"duties,omitempty"` // prepaid or by_recipient
	Coupon    string    `json:"coupon,omitempty"`
	Items     []Item    `json:"items"`
	Notes     []string  `json:"notes,omitempty"`
	// Details are other facts, by name.
	Details map[string]string `json:"details,omitempty"`
}

// PlainRecords are the records of a written workflow, with the members that it can set.
type PlainRecords struct {
	Orders   []PlainOrder
	Payments []Payment
	Refunds  []Refund
	Cases    []Escalation
}

// PlainOrder is an order of a written workflow.
type PlainOrder struct {
	ID        string            `json:"order_id"`
	Status    string            `json:"status"`
	Placed    time.Time         `json:"placed,omitzero"`
	Delivered time.Time         `json:"delivered,omitzero"`
	Carrier   string            `json:"carrier,omitempty"`
	Tracking  string            `json:"tracking,omitempty"`
	Total     Cents             `json:"total,omitempty"`
	Items     []PlainItem       `json:"items,omitempty"`
	Notes     []string          `json:"notes,omitempty"`
	Details   map[string]string `json:"details,omitempty"`
}

// PlainItem is a line of a PlainOrder.
type PlainItem struct {
	Name     string `json:"name"`
	Quantity int64  `json:"quantity"`
	Shipped  int64  `json:"shipped"`
	Price    Cents  `json:"price"`
}

// Plain returns the members that orders of written workflows have.
func (o *Order) Plain() PlainOrder {
	p := PlainOrder{ID: o.ID, Status: o.Status, Placed: o.Placed, Delivered: o.Delivered, Carrier: o.Carrier,
		Tracking: o.Tracking, Total: o.Total, Notes: o.Notes, Details: o.Details}
	for _, it := range o.Items {
		p.Items = append(p.Items, PlainItem{it.Name, it.Quantity, it.Shipped, it.Price})
	}
	return p
}

// Plain returns the records of a written workflow.
func (r *Records) Plain() PlainRecords {
	p := PlainRecords{Payments: r.Payments, Refunds: r.Refunds, Cases: r.Cases}
	for i := range r.Orders {
		p.Orders = append(p.Orders, r.Orders[i].Plain())
	}
	return p
}

// Item is a line of an order, of one piece unless Quantity says more.
type Item struct {
	SKU      string `json:"sku"`
	Name     string `json:"name"`
	Price    Cents  `json:"price"` // paid for one piece
	Quantity int64  `json:"quantity"`
	Shipped  int64  `json:"shipped"`
	// Kind is standard, final_sale, custom or hygiene.
	Kind string `json:"kind"`
	// ListPrice is the price of today in the shop.
	ListPrice Cents `json:"shop_price_today"`
	Stock     int64 `json:"in_stock"`
	// Made is the day on which the production of a custom item begins.
	Made time.Time `json:"production_begins,omitzero"`
}

// Payment is the result of check_payment.
type Payment struct {
	ID      string    `json:"payment_id"`
	OrderID string    `json:"order_id,omitempty"`
	Status  string    `json:"status"` // captured, authorised, failed or charged_back
	Amount  Cents     `json:"amount"`
	Method  string    `json:"method,omitempty"` // card, transfer or gift_card
	At      time.Time `json:"at,omitzero"`
	// Details are other facts, by name.
	Details map[string]string `json:"details,omitempty"`
}

// Shipment is a result of check_shipment.
type Shipment struct {
	Tracking string `json:"tracking"`
	OrderID  string `json:"order_id"`
	Carrier  string `json:"carrier"`
	Status   string `json:"status"` // in_transit, delivered, returned, customs or delayed
	// LastScan is the time of the newest event.
	LastScan  time.Time `json:"last_scan"`
	Delivered time.Time `json:"delivered,omitzero"`
	Signed    bool      `json:"signed"`
	// Cause is the carrier's reason of a delay: weather, customs, sorting or "".
	Cause    string   `json:"cause,omitempty"`
	Contents []string `json:"contents"` // SKUs
	Duty     Cents    `json:"duty_charged,omitempty"`
}

// Subscription is part of the result of look_up_customer.
type Subscription struct {
	ID      string    `json:"subscription_id"`
	Plan    string    `json:"plan"`
	Price   Cents     `json:"monthly_price"`
	Renewed time.Time `json:"renewed"`
	Until   time.Time `json:"paid_until"`
	Used    bool      `json:"used_since_renewal"`
	Others  []Plan    `json:"other_plans"`
}

// Plan is a plan to which a subscription can change.
type Plan struct {
	Name  string `json:"plan"`
	Price Cents  `json:"monthly_price"`
}

// Outage is an interruption of the service of a subscription.
type Outage struct {
	From  time.Time `json:"from"`
	Hours int64     `json:"hours"`
}

// Refund is money sent back, before the episode or by initiate_refund.
type Refund struct {
	ID        string    `json:"refund_id"`
	OrderID   string    `json:"order_id,omitempty"`
	PaymentID string    `json:"payment_id,omitempty"`
	Amount    Cents     `json:"amount"`
	At        time.Time `json:"at,omitzero"`
}

// Credit is store credit, given before the episode or by issue_credit.
type Credit struct {
	ID      string    `json:"credit_id"`
	OrderID string    `json:"order_id,omitempty"`
	Amount  Cents     `json:"amount"`
	At      time.Time `json:"at,omitzero"`
	Why     string    `json:"why,omitempty"` // goodwill, price, coupon, outage, delay
}

// Escalation is a case that a team has taken over.
type Escalation struct {
	ID      string `json:"case_id"`
	Team    string `json:"team"`
	OrderID string `json:"order_id,omitempty"`
	Reason  string `json:"reason,omitempty"`
}
