package quorum

// majority is the smallest number of masters that two groups cannot have without sharing one: n/2+1, also for
// even n.
func majority(n int) int { return n/2 + 1 }
