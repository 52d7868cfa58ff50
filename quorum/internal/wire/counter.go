package wire

import "time"

// Counters is how many fencing counters a master keeps. Keys share them, so memory is bounded and
// no counter has to expire.
const Counters = 4096

// FenceLimit returns the largest number to which the scripts raise a counter when the master's
// clock shows now: 2,048 for each millisecond from 1970 until a day from now. Counters start from
// a clock and rise more slowly, so a larger one is an error. The limit is under 2^53.
func FenceLimit(now time.Time) uint64 {
	const maxFence = 1<<53 - 1
	ahead := uint64(max(now.Add(24*time.Hour).UnixMilli(), 0))
	return min(ahead<<11, maxFence)
}

// CounterOf returns the fencing counter of a full key: CRC16 (XMODEM) as Redis Cluster computes
// it, but over the whole key, without its rule about braces.
func CounterOf(fullKey string) uint16 {
	var crc uint16
	for i := range len(fullKey) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^fullKey[i]]
	}
	return crc % Counters
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
