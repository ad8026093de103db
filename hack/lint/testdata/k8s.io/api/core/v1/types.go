// Package v1 stands for Kubernetes' package.
package v1

// Pod has two fields.
type Pod struct{ Name, Namespace string }

// Fail never returns.
func Fail() { panic("failed") }

// Old does nothing.
//
// Deprecated: do nothing yourself.
func Old() {}
