// Package values has only tests: a model of locks that clients release and refresh by their value,
// and searches through the orders in which masters, proxies and clients can act. ADOPTED.md in
// quorum names its cases.
package values
