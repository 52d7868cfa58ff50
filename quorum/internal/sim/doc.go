// Package sim is the simulation of package quorum: tests only. Real Quorums run in front of masters
// in memory, over a network in memory and in virtual time. Each run follows from a seed: the
// deployment, the clients, the delay of every message and the faults. A ledger checks what clients
// are told, and the masters are searched for what is left.
//
// The simulation uses package quorum from outside, as a proxy does, and computes what to expect by
// itself.
//
// Mutations are rules of the product, each broken on purpose. They show that the simulation, or the
// test that they name, finds what it is there to find.
package sim
