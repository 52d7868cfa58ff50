package wire

// InspectArgs returns KEYS and ARGV of a call of Packet that inspects keys, at most MaxOps full
// keys. It is for clients that encode by themselves, on connections that are not lanes.
func (e *Encoder) InspectArgs(fullKeys []string) (keys []string, argv []any) {
	keys = append([]string{e.StateKey}, fullKeys...)
	argv = []any{"", "0000"}
	for range fullKeys {
		argv = append(argv, string(letters[Inspect]))
	}
	return keys, argv
}
