// Package docs holds the documents that the program shows.
package docs

import _ "embed"

// Operations is operations.md. The operators' page shows it, because its problems refer to it.
//
//go:embed operations.md
var Operations string
