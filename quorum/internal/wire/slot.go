package wire

// Slots is how many fencing counters a master keeps. Keys share them, so memory is bounded and
// nothing has to expire.
const Slots = 4096

// Slot returns the counter of a full key: CRC16 (XMODEM) as Redis Cluster computes it, but over
// the whole key, without its rule about braces.
func Slot(fullKey string) uint16 {
	var crc uint16
	for i := range len(fullKey) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^fullKey[i]]
	}
	return crc % Slots
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
