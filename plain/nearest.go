package plain

import "strings"

// Nearest returns the word that is closest to wrote, or "" if none is close: one letter in three
// may differ, and case does not count. Among equally close words the first wins.
func Nearest(wrote string, words []string) string {
	best, nearest := len(wrote)/3+1, ""
	if len(wrote) < 2 || len(wrote) > 64 {
		return ""
	}
	for _, word := range words {
		if d := distance(strings.ToLower(wrote), strings.ToLower(word)); d < best {
			best, nearest = d, word
		}
	}
	return nearest
}

// distance is how many letters must be put in, left out, replaced, or swapped with the next to
// make b of a.
func distance(a, b string) int {
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			row[j+1] = min(above[j]+wrong, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
