package fake

import "time"

// databases are the keyspaces of a master.
type databases struct {
	*Memory // of database 0
	DBs     map[int]*Memory
	clock   func() time.Time // the master's
}

func newDatabases(clock func() time.Time) databases {
	first := newMemory(clock)
	return databases{Memory: first, DBs: map[int]*Memory{0: first}, clock: clock}
}

// FlushLocked is FlushAll inside Set.
func (d *databases) FlushLocked() {
	for _, db := range d.DBs {
		clear(db.keys)
	}
}

// SaveLocked returns a snapshot of database 0.
func (d *databases) SaveLocked() *Memory { return d.Memory.Clone() }

// LoadLocked replaces the data of database 0 by a copy of a snapshot.
func (d *databases) LoadLocked(saved *Memory) { d.Memory.set(saved) }

// SwapLocked is SWAPDB.
func (d *databases) SwapLocked(a, b int) {
	d.DBs[a], d.DBs[b] = d.dbLocked(b), d.dbLocked(a)
	d.Memory = d.DBs[0]
}

func (d *databases) dbLocked(n int) *Memory {
	if d.DBs[n] == nil {
		d.DBs[n] = newMemory(d.clock)
	}
	return d.DBs[n]
}
