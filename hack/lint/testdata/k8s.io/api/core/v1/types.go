// Package v1 stands for that of Kubernetes.
package v1

// Pod has two fields.
type Pod struct{ Name, Namespace string }

// Fail never returns.
func Fail() { panic("failed") }

// Old does nothing.
//
// Deprecated: do nothing yourself.
func Old() {}
