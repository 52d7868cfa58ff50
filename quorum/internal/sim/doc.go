// Package sim is the simulation of package quorum: tests only. Real Quorums run in front of
// masters in memory, over a network in memory and in virtual time. Each run follows from a seed:
// the deployment, the clients, the delay of every message and the faults. A ledger checks the
// answers that clients get, and the masters are searched for keys that are left.
//
// The simulation uses package quorum from outside, like a proxy, and computes its expectations by
// itself.
//
// Mutations are bugs put in on purpose, each in one rule of the product. They show that the
// simulation, or the test that they name, finds such bugs.
package sim
