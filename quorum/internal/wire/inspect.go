package wire

// InspectArgs returns the words of a call of Packet that inspects keys, at most MaxOps full keys.
// It is for clients that encode by themselves, on connections that are not lanes.
func (e *Encoder) InspectArgs(fullKeys []string) []any {
	args := []any{"EVAL", Packet.Body, 1 + len(fullKeys), e.StateKey}
	for _, key := range fullKeys {
		args = append(args, key)
	}
	args = append(args, "", "0000", "", "")
	for range fullKeys {
		args = append(args, operations[Inspect].name, 0)
	}
	return args
}
