package fake

import "strings"

// journal keeps the commands that a master carried out, and the messages that it published.
type journal struct {
	Quiet     bool     // keep no log
	log       []string // commands and operations: "acquire lock:job", "CLIENT KILL"
	published []string // "channel message"
}

// note logs a command, and the operations of a packet.
func (j *journal) note(cmd *Command) {
	if j.Quiet {
		return
	}
	j.log = append(j.log, cmd.Name)
	for i := range cmd.Ops {
		j.log = append(j.log, cmd.Ops[i].Name+" "+cmd.Ops[i].Key)
	}
}

// ran counts the commands and operations whose name begins with word.
func (j *journal) ran(word string) (n int) {
	for _, line := range j.log {
		if strings.HasPrefix(line, word) {
			n++
		}
	}
	return n
}
