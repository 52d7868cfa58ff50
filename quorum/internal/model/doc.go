// Package model has only tests: a model of masters, proxies and clients, and searches through the
// orders in which they can act. The model states the rules on its own and imports no other code of
// lockproxy. SAFETY.md and KINDS.md in quorum name its cases.
package model
