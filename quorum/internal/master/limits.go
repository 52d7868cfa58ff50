package master

import (
	"time"

	"lockproxy/quorum/internal/admission"
)

const (
	// maxUnanswered is how many requests may wait on a lane before it takes no more top-ups and
	// repairs.
	maxUnanswered = 4096
	// maxHolders is how many requests may wait before the lane takes none of holders either.
	maxHolders = 65536
	// silence is how long dialling, a handshake and a PING may take, and bytes go unacknowledged,
	// before the lane is dead.
	silence = 2 * time.Second
	// tickEvery is the time between two PINGs, two probes and two tries of failed repairs. A vote
	// counts for admission.MaxAge after a probe.
	tickEvery = admission.MaxAge / 2
)
