package master

// repairList holds repairs, oldest first.
type repairList struct{ oldest, newest *repair }

// all yields the repairs of the list. The loop may remove the one it looks at.
func (l *repairList) all(yield func(*repair) bool) {
	for r := l.oldest; r != nil; {
		newer := r.newer
		if !yield(r) {
			return
		}
		r = newer
	}
}

func (l *repairList) push(r *repair) {
	r.older, r.newer = l.newest, nil
	if r.older != nil {
		r.older.newer = r
	} else {
		l.oldest = r
	}
	l.newest = r
}

func (l *repairList) cut(r *repair) {
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		l.oldest = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		l.newest = r.older
	}
}
