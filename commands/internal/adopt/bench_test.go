package adopt

import "testing"

func BenchmarkJudge(b *testing.B) {
	for _, line := range []string{"GET user:1", "SET user:1 v", "MSET a 1 b 2 c 3", "EVALSHA sum 1 user:1", "GET job:1"} {
		b.Run(line, func(b *testing.B) {
			p, argv := patterns(b, "job:*,*:lock"), words(line)
			b.ReportAllocs()
			for b.Loop() {
				p.Judge(argv, len(argv), false)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	release := bodyOf(b, "redis-py 4.3.4: LUA_RELEASE_SCRIPT")
	for name, line := range map[string]string{
		"SET": "SET|job:1|v|NX|PX|30000", "EVAL": "EVAL|" + release + "|1|job:1|v",
		"EVALSHA": "EVALSHA|" + sha1Of(release) + "|1|job:1|v",
	} {
		b.Run(name, func(b *testing.B) {
			table, argv := testTable(b, "job:*", 0), args(line)
			table.Learn([]byte(release))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := table.Parse(argv); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
