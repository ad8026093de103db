// Package desk is the world of a support desk: the records of a customer, and the policy that
// decides what is right to do about a request. The records state facts; what is right follows from
// them and the policy alone.
package desk

import (
	"fmt"
	"time"
)

// Cents is an amount of US dollars in cents. Its JSON, which agents receive and send, is a decimal
// number of dollars with two digits (1234 is 12.34).
type Cents int64

// MarshalJSON writes dollars with two decimals.
func (c Cents) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

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
	Cases         []Case
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
	ID       string    `json:"order_id"`
	Owner    string    `json:"customer_id"`
	Status   string    `json:"status"` // placed, packed, shipped, delivered, cancelled, on_hold
	Placed   time.Time `json:"placed"`
	Total    Cents     `json:"total"`
	Delivery Cents     `json:"delivery_fee"`
	Service  string    `json:"delivery_service"` // standard or express
	Promised time.Time `json:"promised_by,omitzero"`
	Address  string    `json:"address"`
	Duties   string    `json:"duties,omitempty"` // prepaid or by_recipient
	Coupon   string    `json:"coupon,omitempty"`
	Items    []Item    `json:"items"`
	Notes    []string  `json:"notes,omitempty"`
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
	Method  string    `json:"method"` // card, transfer or gift_card
	At      time.Time `json:"at"`
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

// Case is an escalation.
type Case struct {
	ID      string `json:"case_id"`
	Team    string `json:"team"`
	OrderID string `json:"order_id,omitempty"`
	Reason  string `json:"reason,omitempty"`
}
